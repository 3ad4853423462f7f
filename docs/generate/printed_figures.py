"""docs/figures.md: every figure of results that the papers print, with its file, its kinds and the claims that it
feeds.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import yaml

from fedshift.analysis.layout.page import piped
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import paper_claims
from fedshift.registry import get, own, title
from fedshift.workspace import Workspace

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
}  # paper -> figure -> files; what shows no result (FDSE 1, 2, A7; FedRD 1; hFedF 1, 2; StableFDG 1 to 3) is not here
HEAD = """# Figures

Made by `make docs`. Kinds: what `figures:` of an experiment may name ([add-a-figure.md](add-a-figure.md)).

{kinds}

## What they look like

All of digits, after a few rounds of training: they show what a kind looks like, and say nothing of the papers.
Made by `{commit}` on {machine} (`make gallery`, {seconds} s); `claims` is drawn of runs of PACS ([hfedf.md](hfedf.md)).

{pictures}
## The papers' figures

Every printed figure of results has a file; illustrations have none. Its `notes` have the paper's caption in our words and what is guessed. None of
these figures prints numbers, so no point of them stands beside ours; where a table prints the same quantity, its number is drawn (dashed or a
diamond, in all kinds). *Claims*: groups of `reference/claims.csv` that are about the figure; where each is judged: [claims.md](claims.md). A file
that is named and not linked is not there yet.

{printed}
"""
GALLERY = ROOT / "docs" / "gallery"


def figures() -> str:
    """The page."""
    kinds = [[f"`{name}`", title("figures", name), _parameters(name)] for name in own("figures")]
    made = json.loads((GALLERY / "made.json").read_text())
    captions = yaml.safe_load((GALLERY / "pictures.yaml").read_text())
    pictures = [
        f"![{_plain(text)}](images/gallery/{name}.png)\n\n{text}\n" for name, text in captions.items()
    ]
    there = available(Workspace(ROOT))
    rows = [
        [paper, f"Fig. {name}", ", ".join(_linked(file, there) for file in files), _kinds(files, there),
         _claims(paper, name)]
        for paper, printed in PRINTED.items()
        for name, files in printed.items()
    ]  # fmt: skip
    return HEAD.format(
        kinds=_table(["kind", "shows", "parameters"], kinds),
        pictures="\n".join(pictures),
        **made,
        printed=_table(["paper", "figure", "file", "kinds", "claims"], rows),
    )


def _plain(caption: str) -> str:
    """What is read aloud in place of the picture: the caption's first sentence."""
    return caption.replace("`", "").partition(". ")[0].rstrip(".")


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
