"""Tables: the values of their columns for each planned run (fedshift.experiments.column), and their cells.

The cells are methods by axis values and metrics, as mean and spread over seeds, next to the published values.

Costs: `parameters`, `state_dict`, `macs` and `macs_norm` are counted from the run's specification, on shapes
alone. The other costs are measured, and are NaN for a run that is not finished. `up` and `down` are what one
participating client sends and receives in a round. They are NaN where one client holds all images, as nothing
is sent.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedshift.analysis.clients import last_recorded, leading
from fedshift.analysis.collected import ARCHIVE, BESIDE, NUMBERS, SELECT, Collected
from fedshift.analysis.evaluated import measured
from fedshift.analysis.published import AVERAGE, flat, printed_cell, without_seed
from fedshift.analysis.quantities import PLACE, choose, curves, left_out
from fedshift.analysis.verdicts import judge
from fedshift.common.errors import unknown
from fedshift.common.registry import get
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import COUNTED, Column, column, measured_on_clients, quantity, recorded
from fedshift.experiments.protocols import Rule
from fedshift.experiments.schema import METRIC, Experiment, Table
from fedshift.storage.workspace import Workspace

MEGA = 1e6
EXACT = 12  # decimals; smaller differences are rounding errors
Use = Mapping[Any, Any]
Cell = tuple[Hashable, ...]  # the row's label, then the value on each column axis
Point = tuple[tuple[str, Hashable], ...]  # the value on each axis that a cell averages


def sent(runs: pd.DataFrame, way: str) -> pd.Series[float]:
    """MB that all clients sent (`up`) or received (`down`) in a whole run, by rows of Collected.runs.

    NaN where one client holds all images.
    """
    return (runs[f"bytes_{way}"] / MEGA).where(~runs["pooled"].eq(True))


def cost(runs: pd.DataFrame, name: str) -> pd.Series[float]:
    """A cost (fedshift.experiments.column.COSTS) for each row of Collected.runs."""
    if name in COUNTED:
        from fedshift.analysis.layers import counts  # torch, which other costs do not need

        networks = runs["spec"].map(without_seed)
        return networks.map(lambda text: counts(text).get(name, math.nan)).astype(float)
    if name in ("up", "down"):
        participation = runs["spec"].map(functools.partial(setting, key="federation.participation"))
        takers = (participation * runs["clients"].str.len()).round().clip(lower=1)
        values = sent(runs, name) / (runs["rounds"] * takers)
    else:
        values = runs[{"seconds": "seconds", "memory": "peak_memory_mb"}[name]]
    return values.where(runs["state"] == "finished").astype(float)


def of_runs(
    workspace: Workspace, collected: Collected, rule: Rule, table: Table, late: bool = False
) -> pd.DataFrame:
    """The keys of each run and one column for each of the table's metrics; NaN where a run has no value.

    For a layer the value is its number of parameters. Relative columns compare runs at the same values on all
    axes. The ratio of seconds is NaN if the two runs used different hardware.

    `rule`: which round the quantities are read from.
    `late`: count a run that never reaches a value as if it did one round after the longest run (claims). By
        default it has no value (tables).
    """
    keys, runs = collected.keys, collected.runs
    rounds = curves(collected, recorded(table.metrics))
    reported = collected.of_each_run(choose(rounds, [*keys, PLACE], rule))
    frame = runs[keys].copy()
    for text in table.metrics:
        own = column(text)
        if own.kind == "quantity":
            values = reported[own.name]
        elif own.kind == "cost":
            values = cost(runs, own.name)
        elif own.kind == "recorded":
            values = last_recorded(workspace, collected, own.name)
        elif own.kind == "leads":
            values = leading(collected, own.name, rule)
        elif own.kind == "rounds_to":
            values = _reached(collected, own, rounds, late)
        elif own.kind == "evaluated":
            values = measured(workspace, collected, own.name)
        elif own.kind == "setting":
            values = runs["spec"].map(functools.partial(setting, key=own.name)).astype(float)
        else:
            from fedshift.analysis.layers import layer

            paper, (printed, *_) = collected.experiment.paper, table.printed
            pieces = [layer(workspace, paper, printed, own.name, spec) for spec in runs["spec"]]
            values = pd.Series([piece.parameters for piece in pieces], runs.index, dtype=float)
        frame[text] = _relative(collected, own, values, table.against) if own.relative else values
    return frame


def setting(text: str, key: str) -> float:
    """The number at a dotted key of a resolved spec (JSON); NaN where there is none, or it is not a number.

    Parameters that the spec does not set have their defaults.
    """
    value: Any = flat(text).get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else float("nan")


def _reached(collected: Collected, own: Column, rounds: pd.DataFrame, late: bool) -> pd.Series[float]:
    """Rounds until a quantity first reaches a value."""
    name, value = own.threshold
    lower = get("metrics", quantity(name).metric).better == "lower"
    hit = rounds[name] <= value if lower else rounds[name] >= value
    known = rounds.assign(first=rounds["round"].where(hit)).dropna(subset=name)
    firsts = known.groupby(collected.keys, dropna=False).agg(first=("first", "min"), last=("round", "max"))
    of = collected.of_each_run(firsts.reset_index())
    reached = of["first"].astype(float)
    return reached.mask(reached.isna() & of["last"].notna(), of["last"].max() + 1) if late else reached


def _relative(collected: Collected, own: Column, values: pd.Series[float], against: str) -> pd.Series[float]:
    """Values relative to those of the row `against` at the same place on all axes."""
    axes, runs = collected.keys[1:], collected.runs
    frame = runs[axes].assign(own=values, hardware=runs["hardware"], every=0)
    base = frame[runs["method"] == against].rename(columns={"own": "base", "hardware": "beside"})
    both = frame.merge(base, on=[*axes, "every"], how="left").set_axis(runs.index)
    if own.relative == "gain":
        return both["base"] - both["own"]
    ratio = both["own"] / both["base"]
    return ratio.where(both["hardware"] == both["beside"]) if own.name == "seconds" else ratio


def judged(workspace: Workspace, collected: Collected) -> dict[str, pd.DataFrame]:
    """The cells of every table of the experiment, with verdicts on those that have a published value."""
    return {
        name: judge(workspace, collected, cells(workspace, collected, table))
        for name, table in collected.experiment.tables.items()
    }


def cells(workspace: Workspace, collected: Collected, table: Table) -> pd.DataFrame:
    """One row per cell: method, axes, metric, numbers, then the columns of `BESIDE`.

    The axes are those in `table.columns`. `metric` comes last, or where they name it. The numbers are `mean`,
    `std` (in percent where the metric is a fraction), `seeds` and `planned`. Columns of `BESIDE`:

    `published`, `published_std`, `difference`, `uid`: a paper's number that the cell may be compared with.
    `low`, `high`, `margin`, `rule`, `verdict`: filled in by fedshift.analysis.verdicts.
    `orientation`, `orientation_std`: a number that it may not be compared with; `differs` has the reasons.
    `remark`, `spread`: what a reader must know of the published number.
    `fewer`: the values of the other axes that the cell has, where cells in the same column have more of them.
    `clients`: "2 of 3" where a value is defined on 2 of 3 clients only.
    `archived`: how many of the cell's runs are read from the archive.

    An adapted row has accuracy and loss on the held-out domain only. Values are averaged over the axes that
    are not columns within each seed, then over seeds. A seed with a missing run counts in `planned` (the
    number of seeds the cell should have) but not in `seeds`, as an average over fewer domains is another
    quantity.

    Raises FedshiftError for a column that is not an axis of the experiment.
    """
    keys, experiment, axes = collected.keys, collected.experiment, table.axes
    for axis in axes:
        if axis not in keys[1:]:
            raise unknown(f"{experiment.file}: tables", "axis", axis, keys[1:])
    rules = [*table.select] or [collected.protocol.select]
    order = {axis: [*collected.order[axis]] for axis in axes}
    frame = pd.concat([of_runs(workspace, collected, rule, table).assign(**{SELECT: rule}) for rule in rules])
    if len(order.get("target", ())) > 1:
        frame = _with_average(frame)
        order["target"].append(AVERAGE)
    frame = frame.melt([*keys, SELECT], [*table.metrics], METRIC)
    kinds = {metric: column(metric) for metric in table.metrics}

    def of(wanted: Callable[[Column], bool]) -> pd.Series[bool]:
        """Which rows belong to columns that satisfy `wanted`."""
        return frame[METRIC].isin([metric for metric, own in kinds.items() if wanted(own)])

    # No run can fill a row's gain over itself, nor a setting that its method does not have.
    itself = of(lambda own: own.relative == "gain") & (frame["method"] == table.against)
    without = of(lambda own: own.kind == "setting") & frame["value"].isna()
    unadapted = ~of(_on_domain) & frame["method"].isin([*experiment.adapt])
    frame = frame[~(itself | without | unadapted)]
    order |= {"method": experiment.rows, SELECT: rules, METRIC: [*table.metrics]}
    for name, categories in order.items():
        frame[name] = pd.Categorical(frame[name], categories)
    by = ["method", *table.columns, *[SELECT] * bool(table.select)]
    by += [METRIC] * (METRIC not in by)
    seed = [axis for axis in keys if axis == "seed"]
    within = frame.groupby([*by, *seed], observed=True)["value"].mean(skipna=False)  # NaN if any is
    groups = within.groupby(by, observed=True)
    seeds = groups.count()
    varies = ~seeds.index.get_level_values(METRIC).isin([name for name, own in kinds.items() if own.declared])
    std = groups.std(ddof=collected.protocol.ddof).where((seeds > 1) & varies)
    result = pd.DataFrame(dict(zip(NUMBERS, (groups.mean(), std, seeds, groups.size()), strict=True)))
    return _beside(workspace, collected, table, result.reset_index())


def _with_average(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a copy of each row with a held-out domain, under AVERAGE, for the average over these domains."""
    return pd.concat([frame, frame[frame["target"] != NONE].assign(target=AVERAGE)])


def by_cell(runs: pd.DataFrame, columns: Sequence[str]) -> dict[Cell, pd.DataFrame]:
    """The runs that each cell of a table averages, in the order of their first one.

    `runs`: `method` and the value on each axis, NONE where there is none.
    `columns`: the axes that are columns of the table.
    """
    keys = runs.reindex(columns=["method", *columns], fill_value=NONE)
    if "target" in columns:
        keys = _with_average(keys).sort_index(kind="stable")
    return {cell: runs.loc[of.index] for cell, of in keys.groupby(["method", *columns], sort=False)}


def _on_domain(own: Column) -> bool:
    """Whether an adapted row has values in a column, that is, metrics recorded on the held-out domain."""
    metric, how = quantity(own.name) if own.kind == "quantity" else ("", "")
    return how == "ood" and bool(get("metrics", metric).recorded)


def _beside(workspace: Workspace, collected: Collected, table: Table, result: pd.DataFrame) -> pd.DataFrame:
    """Add to each cell the paper's number and the remarks on it."""
    experiment, protocol, keys = collected.experiment, collected.protocol, collected.keys
    runs = collected.runs[[*keys, "spec", "adaptation", "source"]]
    runs = runs.assign(**runs[keys].astype(object).fillna(NONE))
    averaged = by_cell(runs, table.axes)
    uneven = marked(averaged, table.axes, keys[1:])
    few = functools.cache(lambda metric, rule: left_out(collected, metric, rule).to_dict())
    rows = []
    for cell in result.to_dict("records"):
        method, metric, rule = cell["method"], cell[METRIC], cell.get(SELECT, protocol.select)
        values = {axis: cell[axis] for axis in table.axes}
        own, base = (averaged.get((row, *values.values()), runs[:0]) for row in (method, table.against))
        row = dict.fromkeys(BESIDE) | {"fewer": uneven.get((method, *values.values()))}
        row["archived"] = [*own["source"]].count(ARCHIVE)
        if of_clients := measured_on_clients(metric):
            texts = few(of_clients, rule)
            row["clients"] = ", ".join(dict.fromkeys(texts[run] for run in own.index if texts[run]))
        place = method, values, metric
        printed, differs = printed_cell(workspace, experiment, protocol, table, place, own, base)
        if printed and rule == protocol.select:
            row |= {"remark": printed.remark, "spread": printed.spread, "differs": "; ".join(differs)}
            if differs:
                row |= {"orientation": printed.value, "orientation_std": printed.std}
            else:
                row |= {"published": printed.value, "published_std": printed.std, "uid": printed.uid}
                row["difference"] = round(cell["mean"] - printed.judged, EXACT)
        if column(metric).kind == "layer":
            row |= _layer(workspace, collected, table, metric, own)
        rows.append(row)
    beside = pd.DataFrame(rows, columns=[*BESIDE], index=result.index)
    words = [name for name, kind in BESIDE.items() if kind is str]
    return pd.concat([result, beside.fillna(dict.fromkeys(words, "")).astype(BESIDE)], axis=1)


def _layer(
    workspace: Workspace, collected: Collected, table: Table, metric: str, runs: pd.DataFrame
) -> dict[str, Any]:
    """A layer in words, ours and the paper's; all variants if the runs have several networks."""
    from fedshift.analysis.layers import layer, printed_layers

    paper, (printed, *_) = collected.experiment.paper, table.printed
    name = column(metric).name
    ours = dict.fromkeys(layer(workspace, paper, printed, name, spec).text for spec in runs["spec"])
    theirs = printed_layers(workspace, paper, printed).get(f"layer{name.partition('.')[2]}", ())
    return {"text": " or ".join(ours), "published_text": ", ".join(theirs)}


def marked(
    averaged: Mapping[Cell, pd.DataFrame], columns: Sequence[str], axes: Sequence[str]
) -> dict[Cell, str]:
    """The cells of a table that average fewer values than others in their column: "epochs 2 of 1, 2".

    `averaged`: all planned runs of each cell (`by_cell`).
    `columns`: the axes that are columns of the table, among all `axes` of the experiment.
    """
    others = [axis for axis in axes if axis not in columns]
    points: defaultdict[Cell, dict[Hashable, set[Point]]] = defaultdict(dict)
    for (row, *values), runs in averaged.items():
        average = ("target", AVERAGE) in zip(columns, values, strict=True)
        over = [*others, "target"] if average else others
        each = runs[over].itertuples(index=False, name=None)
        points[tuple(values)][row] = {tuple(zip(over, point, strict=True)) for point in each}
    cells: dict[Cell, str] = {}
    for at, by_row in points.items():
        whole = set[Point]().union(*by_row.values())
        cells |= {(row, *at): _fewer(own, whole) for row, own in by_row.items() if len(own) < len(whole)}
    return cells


def _fewer(own: set[Point], whole: set[Point]) -> str:
    """The values on each axis that a row has, of those that any row has."""
    axes = [axis for axis, _ in next(iter(whole))]
    parts = []
    for place, axis in enumerate(axes):
        ours, all_of = ({point[place][1] for point in points} for points in (own, whole))
        if len(ours) < len(all_of):
            parts.append(f"{axis} {_listed(ours)} of {_listed(all_of)}")
    return "; ".join(parts) or f"not all combinations of {' and '.join(axes)}"


def warnings(experiment: Experiment, uses: Sequence[Use]) -> list[str]:
    """The warnings of `fedshift plan` about tables with such cells, one line for each row and reason.

    `uses`: `method` and the value on each axis, for all planned runs.
    """
    runs = pd.DataFrame([*uses], dtype=object).fillna(NONE)
    axes = [str(axis) for axis in runs if axis != "method"]
    lines = (
        f"{experiment.name}, table '{name}': '{cell[0]}' is a mean over {missing}; the table marks it."
        for name, table in experiment.tables.items()
        for cell, missing in marked(by_cell(runs, table.axes), table.axes, axes).items()
    )
    return [*dict.fromkeys(lines)]


def _listed(values: Iterable[Any]) -> str:
    """Numbers ascending, then words."""
    return ", ".join(map(str, sorted(values, key=lambda value: (isinstance(value, str), value))))
