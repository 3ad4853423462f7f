"""Every `fedshift VERB --option`, `make TARGET` and `file.py` that a page names is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from fedshift.cli import main
from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")])
VERB = re.compile(r"^(?:\$ )?fedshift ([a-z]+)([^\n#|]*)", re.MULTILINE)
TARGET = re.compile(r"^(?:[A-Z]+=\S+ )*make ([a-z-]+)", re.MULTILINE)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
INNER = re.compile(r"\$\((.*?)\)")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]+")
FILE = re.compile(r"^[\w./{},-]+\.py(?=$|::)", re.MULTILINE)
CHOICES = re.compile(r"(.*)\{(.*)\}(.*)")
BELOW = [
    ROOT,
    ROOT / "src",
    ROOT / "src" / "fedshift",
    ROOT / "tests",
    ROOT / "benchmarks",
]  # where pages begin the name of a file
NAMES = {
    path.name
    for folder in ("src", "tests", "docs", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
}
OF_THE_READER = {"src/fedshift/methods/fedmine.py"}  # who writes it
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def code(page: str) -> str:
    """Its shell commands, one a line: blocks, spans, and what stands in `$(..)`."""
    outside = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    lines = "\n".join([*BLOCK.findall(page), *SPAN.findall(outside)])
    return "\n".join([INNER.sub("", lines), *INNER.findall(lines)])


def files(text: str) -> list[str]:
    """The Python files among spans; `a/{b,c}.py` are two."""
    every = []
    for name in FILE.findall(text):
        parts = CHOICES.fullmatch(name)
        every += [f"{parts[1]}{one}{parts[3]}" for one in parts[2].split(",")] if parts else [name]
    return every


def wrong(page: str) -> list[str]:
    """What a page names that is not there."""
    text = code(page)
    found = [f"make {target}" for target in TARGET.findall(text) if target not in TARGETS]
    for name in files(text):
        there = any((folder / name).exists() for folder in BELOW) if "/" in name else name in NAMES
        found += [name] * (not there and name not in OF_THE_READER)
    for verb, words in VERB.findall(text):
        command = main.get_command(click.Context(main), verb)
        if command is None:
            found.append(f"fedshift {verb}")
            continue
        known = {
            option for parameter in command.params for option in parameter.opts + parameter.secondary_opts
        }
        asked = OPTION.findall(words.partition(" -- ")[0])  # behind it are Snakemake's
        found += [f"fedshift {verb} {option}" for option in asked if option not in known | {"--help"}]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_it_names_what_is_there(page: Path) -> None:
    assert wrong(page.read_text()) == []


def test_what_is_not_there_is_noticed() -> None:
    assert wrong("`fedshift plan x --retry-failed`\n```sh\nfedshift run x -- --dry-run\nmake demo\n```") == []
    assert wrong("`fedshift plann x`") == ["fedshift plann"]
    assert wrong("```sh\nfedshift train --plan $(fedshift plan x --prints)   # --y\n```") == [
        "fedshift plan --prints"
    ]
    assert wrong("`SEED=1 make demos`") == ["make demos"]
    assert wrong("`common/download.py`, `federation/{client,server}.py::Client` and `client.py`") == []
    assert wrong("`data/download.py`, `federation/{client,sever}.py` and `clients.py`") == [
        "data/download.py",
        "federation/sever.py",
    ]
    assert wrong("`clientele.py`") == ["clientele.py"]
    assert wrong("fedshift trains\nmake things") == []
