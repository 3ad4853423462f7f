"""The messages that docs/troubleshooting.md explains are those that the code gives."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
OTHERS = {  # of other programs
    "fedshift": "a program",
    "command not found": "the shell",
    "OutOfMemoryError": "torch",
    "failure.json": "a file",
    "No space left on device": "the operating system",
    "Directory cannot be locked": "Snakemake",
    "MissingOutputException": "Snakemake",
    "invalid choice": "Snakemake",
    "--executor": "an option",
    "Checkout failed for following targets": "DVC",
    "is not a git repository": "DVC",
    "Unable to acquire lock": "DVC",
    "rwlock": "DVC",
    "NotADirectoryError": "Python",
    "Read-only file system": "the operating system",
    "Permission denied": "the operating system",
}


def explained() -> list[str]:
    """The parts of the messages in the first columns, without what stands for names and numbers."""
    cells = re.findall(r"^\| (.*?) \| ", PAGE.read_text(), re.MULTILINE)
    messages = [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    parts = [part.strip(" '") for message in messages for part in re.split(r"\.\.|: ", message)]
    return [part for part in dict.fromkeys(parts) if len(part) > 3]


def said() -> str:
    """All text in the sources: f-strings without what is filled in, the Makefile, and what the workflow says at its end."""
    texts = [(ROOT / name).read_text() for name in ("Makefile", "workflow/rules/failures.smk")]
    for path in sorted((ROOT / "src" / "fedshift").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values
                    )
                )
    return "\n".join(texts)


@pytest.mark.parametrize("part", [part for part in explained() if part not in OTHERS])
def test_the_code_says_it(part: str, source: str) -> None:
    assert part in source


@pytest.fixture(scope="module")
def source() -> str:
    return said()


def test_there_is_much_to_explain_and_no_exception_too_many() -> None:
    assert len(explained()) > 35 and set(explained()) >= set(OTHERS)
