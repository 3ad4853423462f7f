"""Toy experiments with known differences between methods, for tests of claims."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedshift.analysis.claims import judge
from fedshift.analysis.claims import words as claim_words
from fedshift.analysis.collected import Collected
from fedshift.storage.workspace import Workspace

from .conftest import REFERENCE, Project, accuracy

AXES = {"target": ["a", "b"], "seed": [0, 1, 2]}
HFEDF = [0.60, 0.62, 0.58, 0.55, 0.58, 0.54]
Values = Sequence[float | None]


class Verdict(NamedTuple):
    """The rows of one claim; `differences` has them one by one."""

    rows: pd.DataFrame
    claim: str
    statement: str
    verdict: str
    differs: tuple[str, ...]
    printed: float
    orientation: float
    differences: list[Any]


def verdicts(workspace: Workspace, collected: Collected) -> list[Verdict]:
    """The verdicts claim by claim."""
    found = []
    for _, rows in judge.verdicts(workspace, collected).groupby("claim", sort=False):
        differences = [*rows.itertuples(index=False)]
        one: Any = differences[0]
        own = (one.claim, one.said, one.verdict, one.differs, one.printed, one.orientation)
        assert not any(
            rows[name].nunique(dropna=False) > 1 for name in ("said", "verdict", "differs", "on_print")
        )
        found.append(Verdict(rows, *own, differences))
    return found


def less_by(*points: float, effects: Sequence[float] = (5, -5), of: Sequence[float] = HFEDF) -> list[float]:
    """Accuracies that lie below `of` by so many points in each seed, on average over targets; on each by its fixed effect more."""
    shifts = [point + effect for effect in effects for point in points]
    return [value - shift / 100 for value, shift in zip(of, shifts, strict=True)]


def collected(
    project: Project, ood: Mapping[str, Values], axes: Mapping[str, Any] = AXES, **declared: Any
) -> Collected:
    """Methods with their held-out accuracies by target, then seed; None for a run that has not finished."""
    values = {
        (method, *place): None if value is None else {1: accuracy((0.5, 0.5), ood=value)}
        for method, of in ood.items()
        for place, value in zip(itertools.product(*axes.values()), of, strict=True)
    }
    return project.trained(values, tuple(axes), tables={"t": {}}, **declared)


def judged(
    project: Project, name: str, ood: Mapping[str, Values], axes: Mapping[str, Any] = AXES, **claim: Any
) -> Verdict:
    found = collected(project, ood, axes, claims={name: {"metric": "ood", **claim}})
    (verdict,) = verdicts(Workspace(REFERENCE.parent), found)
    return verdict


def told(verdict: Verdict) -> str:
    """What pages say of our differences."""
    return claim_words.lines(verdict.rows)[0][5]
