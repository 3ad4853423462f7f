"""Check: the collected values of an experiment against the bounds that it declares."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.columns import CHANCE
from fedshift.analysis.collection.records import batches
from fedshift.analysis.quantities.select import selected
from fedshift.common.files import write_json
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Comparison:
    """One thing that must hold: `value` (None where there is none) `relation` `bound`."""

    what: str
    value: float | None
    relation: Literal["=", ">="]
    bound: float
    passed: bool


def check(collected: Collected) -> list[Comparison]:
    """All runs finished, all records finite, and accuracies (percent) at least the experiment's multiples of
    chance.

    Chance is 1 / number of classes. Accuracies are means over targets and seeds, of the round that tables
    show; an adapted row has no `id` to reach.
    """
    count = len(collected.runs) if collected.experiment.train else 0
    comparisons = [
        _equal("finished runs", count - len(collected.missing), count),
        _equal("records that are not finite", len(_not_finite(collected, [])), 0),
    ]
    expect, same = (
        collected.experiment.expect,
        [key for key in collected.keys if key not in ("target", "seed")],
    )
    if expect is None:
        return comparisons
    values = collected.runs[[*collected.keys, "classes"]].merge(selected(collected), on=collected.keys)
    values[CHANCE] = 100 / values["classes"].map(len)
    groups = values.groupby(same, sort=False, dropna=False)[["id", "ood", CHANCE]]
    for row in groups.mean().reset_index().to_dict("records"):
        name = " ".join([row["method"], *(f"{axis}={row[axis]}" for axis in same[1:])])
        exempt = {"id": collected.experiment.adapt, "ood": expect.exempt}
        for metric, multiple in (("id", expect.id), ("ood", expect.ood)):
            if multiple and row["method"] not in exempt[metric]:
                comparisons.append(_at_least(f"{name}: {metric}", row[metric], multiple * row[CHANCE]))
    return comparisons


def write(workspace: Workspace, collected: Collected, comparisons: list[Comparison]) -> None:
    """Write check.json beside the experiment's tables."""
    passed = all(comparison.passed for comparison in comparisons)
    path = workspace.tables(collected.experiment.name) / "check.json"
    write_json(path, {"passed": passed, "comparisons": [asdict(comparison) for comparison in comparisons]})


def diverged(collected: Collected) -> list[str]:
    """Each run with records that are not finite, by its row and axes, and the round from which on: "fedavg
    target=photo seed=0: from round 1 on".
    """
    records = _not_finite(collected, [*collected.keys, "round"]).to_pandas()
    first = records.groupby(collected.keys, sort=False, dropna=False)["round"].min().reset_index()
    return [
        " ".join([str(row["method"]), *(f"{axis}={row[axis]}" for axis in collected.keys[1:])])
        + f": from round {row['round']} on"
        for row in first.to_dict("records")
    ]


def _not_finite(collected: Collected, columns: list[str]) -> pa.Table:
    """The records that are not finite: these columns, and the value; a check reads no more than that."""
    wanted = [*columns, "value"]
    parts = [
        batch.filter(pc.invert(pc.fill_null(pc.is_finite(batch["value"]), False)))
        for batch in batches(collected.path, wanted)
    ]
    schema = pa.schema([pq.read_schema(collected.path).field(name) for name in wanted])
    return pa.Table.from_batches(parts, schema)


def _equal(what: str, value: int, bound: int) -> Comparison:
    return Comparison(what, value, "=", bound, value == bound)


def _at_least(what: str, value: float, bound: float) -> Comparison:
    return Comparison(
        what, float(value) if math.isfinite(value) else None, ">=", float(bound), bool(value >= bound)
    )
