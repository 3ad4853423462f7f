"""Every `fedshift VERB --option` and `make TARGET` that a page names is there."""

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
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def code(page: str) -> str:
    """Its shell commands, one a line: blocks, spans, and what stands in `$(..)`."""
    outside = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    lines = "\n".join([*BLOCK.findall(page), *SPAN.findall(outside)])
    return "\n".join([INNER.sub("", lines), *INNER.findall(lines)])


def wrong(page: str) -> list[str]:
    """What a page names that is not there."""
    text = code(page)
    found = [f"make {target}" for target in TARGET.findall(text) if target not in TARGETS]
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
    assert wrong("fedshift trains\nmake things") == []
