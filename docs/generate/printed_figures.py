"""docs/figures.md: every figure of results that the papers print, with its file, its kinds and the claims that it
feeds.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from fedshift.analysis.layout.page import piped
from fedshift.common.registry import get, own, title
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import paper_claims
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
PRINTED = {
    "FDSE": {name: [f"fdse/figure{name}"] for name in ("3", "4", "5", "6", "A8")},
    "FedRD": {
        "2": ["fedrd/figure2"],
        "3": ["fedrd/figure3", "fedrd/table2"],
        "4a": ["fedrd/figure4"],
        "4b": ["fedrd/figure2"],
        "5": ["fedrd/figure5"],
        "6": ["fedrd/figure6", "fedrd/table5"],
    },
    "hFedF": {str(number): [f"hfedf/figure{number}"] for number in range(3, 18)},
    "StableFDG": {name: [f"stablefdg/figure{name}"] for name in ("4", "5", "6")},
}  # paper -> figure -> files
ILLUSTRATIONS = {
    "FDSE": {
        "1": "what FDSE erases of a client's model, beside FedAvg",
        "2": "its framework",
        "A7": "example images of each client's domain",
    },
    "FedRD": {"1": "its framework"},
    "hFedF": {
        "1": "three approaches side by side",
        "2": "its framework, and how domains are dealt to clients",
    },
    "StableFDG": {
        "1": "the problem",
        "2": "how styles are shared, shifted and explored",
        "3": "the attention module",
    },
}  # paper -> figure -> what it shows; no result
HEAD = """# Figures

Made by `make docs`. Kinds: what `figures:` of an experiment may name ([add-a-figure.md](add-a-figure.md)).

{kinds}

## The papers' figures

Every printed figure of results has a file; illustrations, below, have none. Its `notes` have the paper's caption in our words and what is guessed. None of
these figures prints numbers, so no point of them stands beside ours; where a table prints the same quantity, its number is drawn (dashed or a
diamond, in all kinds). *Sentences*: those of `reference/claims_groups.csv` that are about the figure; where each is judged: [claims.md](claims.md). A file
that is named and not linked is not there yet.

{printed}

Illustrations show no result, so there is nothing to make again:

{illustrations}
"""


def figures() -> str:
    """The page."""
    kinds = [[f"`{name}`", title("figures", name), _parameters(name)] for name in own("figures")]
    there = available(Workspace(ROOT))
    rows = [
        [paper, f"Fig. {name}", ", ".join(_linked(file, there) for file in files), _kinds(files, there),
         _claims(paper, name)]
        for paper, printed in PRINTED.items()
        for name, files in printed.items()
    ]  # fmt: skip
    return HEAD.format(
        kinds=_table(["kind", "shows", "parameters"], kinds),
        printed=_table(["paper", "figure", "file", "kinds", "sentences"], rows),
        illustrations=_table(
            ["paper", "figure", "shows"],
            [
                [paper, f"Fig. {name}", what]
                for paper, shown in ILLUSTRATIONS.items()
                for name, what in shown.items()
            ],
        ),
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return piped([heads, *rows], ["---"] * len(heads))


def _parameters(name: str) -> str:
    """The names of a kind's parameters, with what stands without them."""
    fields = dataclasses.fields(get("figures", name).Params)
    return ", ".join(f"`{field.name}`" for field in fields)


def _linked(name: str, there: list[str]) -> str:
    return f"[{name}](../experiments/{name}.yaml)" if name in there else name


def _kinds(files: list[str], there: list[str]) -> str:
    """What the first file draws."""
    if files[0] not in there:
        return ""
    listed = load(Workspace(ROOT), files[0]).figures or ["curves"]
    names = [entry if isinstance(entry, str) else next(iter(entry)) for entry in listed]
    return ", ".join(dict.fromkeys(name for name in names if name != "claims"))


def _claims(paper: str, figure: str) -> str:
    """Groups of claims whose item is the figure, its parts too."""
    rows = [
        name.rpartition(".")[0]
        for name, row in paper_claims(Workspace(ROOT)).items()
        if row["paper"] == paper and row["item"].startswith("Fig") and figure in _numbers(row["item"])
    ]
    return ", ".join(dict.fromkeys(rows))


def _numbers(item: str) -> set[str]:
    """The figures of "Fig 2, 4b": 2, 4b, and 4, whose part that is."""
    named = re.findall(r"[A-Z]?\d+[a-d]?", item)
    return {*named, *(name.rstrip("abcd") for name in named)}
