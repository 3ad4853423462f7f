"""docs/figures.md: the kinds of figures, and the experiments that draw the papers' printed ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fedshift.analysis.page import piped
from fedshift.common.registry import get, own, title
from fedshift.experiments.load import available, load
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
HEAD = """# Figures

Made by `make docs`. Kinds: what `figures:` of an experiment may name ([add-a-figure.md](add-a-figure.md)).

{kinds}

## The papers' figures

Every printed figure of results has a file; FedRD's Figures 3 and 6 are also drawn by its tables 2 and 5, Figure 4b by `fedrd/figure2`. The papers' illustrations have
none: FDSE 1, 2 and A7, FedRD 1, hFedF 1 and 2, StableFDG 1 to 3. The `notes` of a file have the paper's caption in our words and what is guessed. None
of these figures prints numbers, so no point of them stands beside ours; where a table prints the same quantity, its number is drawn (dashed or a
diamond, in all kinds). Where their claims are judged: [claims.md](claims.md).

{printed}
"""


def figures() -> str:
    """The page."""
    kinds = [
        (f"`{name}`", title("figures", name), ", ".join(f"`{key}`" for key in _parameters(name)))
        for name in own("figures")
    ]
    workspace = Workspace(ROOT)
    drawn = [load(workspace, name) for name in available(workspace) if "/figure" in name]
    printed = [
        (f"[{one.name}](../experiments/{one.name}.yaml)", one.title, ", ".join(_kinds(one))) for one in drawn
    ]
    return HEAD.format(
        kinds=piped([("kind", "shows", "parameters"), *kinds], ["---"] * 3),
        printed=piped([("file", "shows", "figures"), *printed], ["---"] * 3),
    )


def _kinds(experiment: Experiment) -> list[str]:
    """The kinds of figures that it lists, each once."""
    names = [one if isinstance(one, str) else next(iter(one)) for one in experiment.figures or ["curves"]]
    return list(dict.fromkeys(names))


def _parameters(kind: str) -> list[str]:
    return [field.name for field in dataclasses.fields(get("figures", kind).Params)]
