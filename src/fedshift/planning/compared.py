"""Which experiments of a plan the claims of another compare with: these need their metrics to be judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fedshift.experiments.claim import Compared
from fedshift.experiments.paper_claims import paper_claims
from fedshift.experiments.schema import Experiment
from fedshift.experiments.sides import sides, table_of
from fedshift.storage.workspace import Workspace


class Pair(NamedTuple):
    """An experiment, and another that its claims compare with."""

    experiment: str
    other: str


def compared(workspace: Workspace, experiments: Iterable[Experiment]) -> list[Pair]:
    """All such pairs among these experiments: claims whose left side the first prints and whose right side
    the other does, and those that the first declares so.
    """
    every = {experiment.name: experiment for experiment in experiments}
    pairs = {*_printed(workspace, every.values())}
    pairs |= {Pair(name, other) for name, one in every.items() for other in _declared(one)}
    return sorted(pair for pair in pairs if pair.other in every and pair.other != pair.experiment)


def _printed(workspace: Workspace, experiments: Iterable[Experiment]) -> Iterator[Pair]:
    """Of claims on numbers of two tables of a paper."""
    owners: dict[tuple[str, str], list[str]] = {}
    for experiment in experiments:
        for printed in dict.fromkeys(name for table in experiment.tables.values() for name in table.printed):
            owners.setdefault((experiment.paper, printed), []).append(experiment.name)
    if len({name for names in owners.values() for name in names}) < 2:
        return
    for row in paper_claims(workspace).values():
        tables = [{table_of(uid) for _, uid in side.terms} for side in sides(workspace, row)]
        of = [{name for table in each for name in owners.get(table, ())} for each in tables]
        yield from (Pair(name, other) for name in next(iter(of), ()) for others in of for other in others)


def _declared(experiment: Experiment) -> Iterator[str]:
    """The experiments that its own claims name."""
    for claim in experiment.claims.values():
        for chosen in claim.rows.values():
            for side in chosen if isinstance(chosen, list) else [chosen]:
                yield from _of(side)


def _of(side: str | Compared) -> Iterator[str]:
    if isinstance(side, Compared):
        yield side.experiment
        for other in (*side.plus, *side.minus):
            yield from _of(other)
