"""Prose of pages, `--help`, messages and docstrings: short sentences, plain words, word budgets. The table gives replacements."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fedshift.cli import main
from tests.conftest import ROOT

LONGEST = 30  # words of a sentence
README, DOCS = 900, 20_000  # words: of README.md, and of all hand-written text in docs/*.md
INSTEAD = {  # pattern, in either case -> what to write
    r"alike": "equally, identically, uniformly",
    r"anew": "again, from scratch",
    r"asks for|asked for": "requests, requires",
    r"at hand": "available",
    r"beside": "next to, compared with, alongside",
    r"but for": "except",
    r"cures?": "fix, hint",
    r"digests?": "run id",
    r"division": "partition",
    r"draws|drawn": "samples (random), plots (figures)",
    r"everybody|nobody": "all clients, no client",
    r"further": "other, additional",
    r"goes on": "resumes, continues",
    r"(?:held|holds) by a test": "checked by a test",
    r"in the mean": "on average",
    r"(?<!there )(?:is|are) no(?! longer)": "is not a",
    r"kept": "saved, stored",
    r"lack(?:s|ed|ing)": "is missing",
    r"less(?= (?:fedavg|hfedf|fdse|local)\b)": "minus",
    r"lies": "is, is located",
    r"made of": "built from",
    r"mend(?:s|ed|ing)?": "fix",
    r"of (?:your|its|their|one's|our) own": "its own X; custom",
    r"played": "run",
    r"printed(?= (?:numbers?|values?|tables?|results?)\b)": "published",
    r"reckons?": "estimates",
    r"refuse[sd]?": "rejects, raises an error",
    r"said|says|tells": "contains, shows, specifies, states; see",
    r"some(?= \d)": "about",
    r"stands?(?! for\b|-)": "is, appears, is located",
    r"told apart": "distinguishable",
    r"(?:unseen|target) domains?": "held-out domain",
    r"whoever": "anyone who",
}
PATTERNS = {re.compile(rf"\b(?:{phrase})(?!\w)", re.IGNORECASE): write for phrase, write in INSTEAD.items()}
SOURCE = ROOT / "src" / "fedshift"
GENERATED = re.compile(r"<!-- (?:made|results): .*?<!-- end -->", re.DOTALL)
NO_PROSE = [  # of a page, with what takes its place
    (re.compile(r"^ *```.*?^ *```$|<!--.*?-->|^>[^\n]*|\$\$.*?\$\$", re.MULTILINE | re.DOTALL), ""),
    (re.compile(r"``.*?``|`[^`]*`|https?://[^\s)]+|<[^>]+>"), "X"),
    (re.compile(r"!?\[([^]]*)\](?:\([^)]*\)|\[[^]]*\])"), r"\1"),
    (re.compile(r"\"[^\"]*\"|“[^”]*”"), "X"),  # quotations
]
UNIT = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.|\[\S+\]:) ?)|\|")  # paragraphs, items, cells, headings
SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9])")
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *ROOT.glob("docs/*.md")]


def by_hand(page: Path) -> str:
    """The text of a page without what `make docs` writes; of a page that is generated as a whole, nothing."""
    text = page.read_text()
    return "" if "\nMade by `make docs`" in text[:300] else GENERATED.sub("", text)


def faults(text: str) -> Iterator[str]:
    """Long sentences and words to replace."""
    for pattern, instead in NO_PROSE:
        text = pattern.sub(instead, text)
    for sentence in (one for unit in UNIT.split(text) for one in SENTENCE.split(unit.strip())):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > LONGEST:
            yield f"{len(words)} words: {' '.join(words)}"
        for pattern, write in PATTERNS.items():
            for found in pattern.finditer(" ".join(sentence.split())):
                yield f"'{found[0].strip()}' -> {write}: {' '.join(words)}"


def helps(command: click.Command, name: str = "fedshift") -> Iterator[tuple[str, str]]:
    """The help texts of a command, of its options and of its subcommands; without metavariables and examples."""
    parts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
    lines = re.sub(r"\b[A-Z]{2}[A-Z_.|]*\b", "X", "\n\n".join(parts).replace("\b", "")).splitlines()
    yield name, "\n".join("" if re.match(r"\s*fedshift |\s{4,}", line) else line for line in lines)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            assert found is not None
            yield from helps(found, f"{name} {verb}")


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_plain(page: Path) -> None:
    assert [*faults(by_hand(page))] == []


@pytest.mark.parametrize(("name", "text"), [pytest.param(*one, id=one[0]) for one in helps(main)])
def test_a_help_text_is_plain(name: str, text: str) -> None:
    assert [*faults(text)] == []


TELLS = {"FedshiftError", "unknown", "echo", "warning", "info", "error", "UsageError"}
PARTS = {
    "what",
    "cure",
    "hint",
    "problem",
    "wrong",
    "text",
    "message",
    "stopped",
}  # names of parts of messages
RECORDED = (
    "methods",
    "models",
    "evaluations",
)  # whose files are hashed with runs: a new word would rename them


def messages(source: str) -> Iterator[str]:
    """The texts that a module prints or raises."""
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in TELLS:
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Assign):
            named = {one.id for of in node.targets for one in ast.walk(of) if isinstance(one, ast.Name)}
            parts = [node.value] if named & PARTS else []
        for constant in (one for part in parts for one in ast.walk(part) if isinstance(one, ast.Constant)):
            if isinstance(constant.value, str) and " " in constant.value:
                yield constant.value


def test_messages_are_plain() -> None:
    files = [
        path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in RECORDED
    ]
    found = {path: [fault for text in messages(path.read_text()) for fault in faults(text)] for path in files}
    assert {path.name: some for path, some in found.items() if some} == {}
    assert sum(len([*messages(path.read_text())]) for path in files) > 400


def docstrings(source: str) -> Iterator[str]:
    """The docstrings of a module, its classes and functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
    yield from filter(None, map(ast.get_docstring, nodes))


def test_docstrings_are_plain() -> None:
    texts = {path: [*docstrings(path.read_text())] for path in sorted(SOURCE.rglob("*.py"))}
    found = {path.name: [*faults("\n\n".join(some))] for path, some in texts.items()}
    assert {name: some for name, some in found.items() if some} == {}
    assert sum(map(len, texts.values())) > 1500


def test_pages_are_within_their_budgets() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= README
    assert sum(len(by_hand(page).split()) for page in ROOT.glob("docs/*.md")) <= DOCS


def test_a_fault_is_found() -> None:
    found = [
        *faults("It stands\nbeside `kept`. Some 18 runs. See [what it says](kept.md).\n\n" + "word " * 31)
    ]
    assert [one.partition(":")[0] for one in found][-1] == "31 words" and len(found) == 5, found
    assert not [
        *faults('It is `of its own`: "nobody says".\n\n```sh\necho anew\n```\n\nThere is no run. ' * 3)
    ]
