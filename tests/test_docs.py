"""Pages name what is there, generated ones are up to date, and what they count is what a reader counts."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fedshift.cli import main
from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
VERB = re.compile(r"^(?:\$ )?fedshift ([a-z]+(?:-[a-z]+)*)([^\n#|]*)", re.MULTILINE)
TARGET = re.compile(r"^(?:[A-Z]+=\S+ )*make ([a-z-]+)", re.MULTILINE)
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
INNER = re.compile(r"\$\((.*?)\)")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]+")
FILE = re.compile(r"^[\w./-]+\.py(?=$|::)", re.MULTILINE)
BELOW = [
    ROOT / name for name in (".", "src", "src/fedshift", "tests", "benchmarks")
]  # where names of files begin
READERS = (
    "own/methods/fedmine.py",
    "own/tests/test_fedmine.py",
    "own/partitions/mine.py",
)  # written by the reader
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def links(page: Path, text: str) -> Iterator[str]:
    """Relative links to files and sections that are not there."""
    for file, section in LINK.findall(BLOCK.sub("", text)):
        target = page.parent / file if file else page
        if ":" in file or not file + section:
            continue
        if not target.exists() or (section and target.suffix == ".md" and section not in anchors(target)):
            yield f"{file}#{section}"


def anchors(page: Path) -> set[str]:
    """The sections of a page as its links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", title.lower()).strip() for title in titles)
    return {re.sub(r"\s", "-", word) for word in words} | {*re.findall(r'id="([^"]+)"', page.read_text())}


def commands(text: str) -> Iterator[str]:
    """Verbs and options of fedshift, targets of make and Python files that are not there."""
    code = "\n".join([*SHELL.findall(text), *SPAN.findall(BLOCK.sub("", text))])
    code = "\n".join([INNER.sub("", code), *INNER.findall(code)])
    yield from (f"make {target}" for target in TARGET.findall(code) if target not in TARGETS)
    for name in FILE.findall(code):
        if "/" in name and name not in READERS and not any((folder / name).exists() for folder in BELOW):
            yield name
    for verb, words in VERB.findall(code):
        command = main.get_command(click.Context(main), verb)
        known = {"--help"} | {
            one for of in (command.params if command else ()) for one in (*of.opts, *of.secondary_opts)
        }
        own = re.sub(r"\$\([^)]*\)", "", words)  # without another command in it
        asked = OPTION.findall(own.partition(" -- ")[0])  # behind it are Snakemake's
        yield from [f"fedshift {verb}"] * (command is None)
        yield from (f"fedshift {verb} {option}" for option in asked if option not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_what_is_there(page: Path) -> None:
    text = page.read_text()
    assert [*links(page, text), *commands(text)] == []


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folders whose scripts write and measure what the pages show."""
    for folder in ("docs/generate", "benchmarks"):  # the first place on the path is the last one's
        monkeypatch.syspath_prepend(ROOT / folder)
    yield
    for name in ("methods", "passes"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "docs/generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("method", "steps", "outside"),
    [
        ("fedavg", (1, 1), {}),
        ("ccst", (3, 3), {}),  # three rendered images for each
        ("moon", (3, 1), {}),  # and the global and the last model, without gradients
        ("feddg_ga", (1, 1), {"val": (2, 0)}),  # the received model and the trained one
        ("fediir", (1, 1), {"train": (1, 0)}),  # the mean gradient of the head
        ("partialfed", (1, 1), {"train": (1, 1)}),  # the gates' epoch
    ],
)
def test_passes_are_those_that_a_method_makes(
    method: str, steps: tuple[int, int], outside: dict[str, tuple[int, int]]
) -> None:
    from passes import play

    played = play(method)
    assert (played.steps, played.outside) == (steps, outside)


def test_what_travels_once_is_told_apart() -> None:
    from passes import play

    one = 3 * 3 * 3  # of an image: channels, a square of 3 x 3 bins
    bank, largest = 12 * one, 16 * one  # of a client: three hold 36 images, the first 16 of them
    model = play("fedavg").bytes["up"][0]
    played = play("feddg")
    assert played.steps == (2, 2)
    sent = bank + 1  # and how many images they are of
    assert played.bytes == {"up": (model, 4 * sent), "down": (model, 3 * 4 * sent)}
    assert played.floats == {("amplitudes", "up"): {1: largest}, ("size", "up"): {1: 1}}
