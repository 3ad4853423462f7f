"""The papers' numbers (reference/published.csv): which belong to a cell of a table, in its unit."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedshift.common.files import read_rows
from fedshift.experiments.column import column
from fedshift.experiments.schema import FIELD, Experiment, Table
from fedshift.storage.workspace import Workspace

JudgedBy = Literal["points", "percent", "exact"]
LAYER = "architecture"
COPIED = "hp:"  # beginning of a setting's metric_id
# Column -> metric_ids, the first of which counts. Of a quantity that is not here: acc_<its name>.
NAMES = {
    "ood": ("acc_ood", "acc_target"),  # papers that print one domain at a time have no word for it
    "gain.id": ("rel_acc_id",),
    "gain.ood": ("rel_acc_ood",),
    "cost.parameters": ("params_1e7",),
    "cost.state_dict": ("comm_MiB_per_round",),
    "cost.macs_norm": ("macs_1e10",),
    "cost.up": ("comm_MB_uplink",),
    "ratio.cost.seconds": ("train_time_s",),
    "setting.local.lr": ("hp:client_lr",),
    "setting.local.weight_decay": ("hp:client_weight_decay",),
    "setting.method.params.mu": ("hp:L2_regularizer",),
    "setting.method.params.l2r": ("hp:L2_regularizer",),
    "setting.method.params.lr": ("hp:server_lr",),
    "setting.method.params.weight_decay": ("hp:server_weight_decay",),
    "setting.method.params.ema": ("hp:server_EMA_decay",),
    "setting.method.params.tau": ("hp:mask_threshold",),
    "setting.method.params.eta": ("hp:server_step_size",),
}
# metric_id -> what a printed number is multiplied by to be in our unit: FDSE prints 1e7 parameters, and 1e10
# multiply-adds of a batch of 50.
UNITS = {"params_1e7": 10.0, "macs_1e10": 1e4 / 50}
# Beginning of a metric_id -> rule: "points", a margin in percentage points; "percent", one in percent of the
# printed number; "exact", to the last printed digit.
RULES: dict[str, JudgedBy] = {
    "acc_": "points",
    "rel_acc_": "points",
    "train_time_": "percent",
    "params_": "exact",
    "comm_": "exact",
    "macs_": "exact",
    COPIED: "exact",
    LAYER: "exact",
}
DECLARED = (COPIED, LAYER)  # what is compared is the declaration itself


def ids(text: str) -> tuple[str, ...]:
    """The metric_ids under which a column may be printed."""
    if column(text).kind == "layer":
        return (LAYER,)
    return NAMES.get(text, (f"acc_{text}",))


def judged_by(metric_id: str) -> JudgedBy:
    """By which rule a printed number is judged."""
    return next(rule for start, rule in RULES.items() if metric_id.startswith(start))


# The meaning of a printed +- that is no standard deviation over seeds; the notes of hFedF's protocol explain
# hFedF's.
SPREADS = {
    "ci95": "the printed ± is the half-width of a 95% interval of {n} runs; shown is its standard deviation, "
    "half-width times sqrt({n}) over Student's t",
    "unstated_in_brackets": "the paper prints the number after ± in brackets and does not say what it is",
}

# Kinds of printed numbers that something speaks against, and nothing says what is right.
DOUBTED = ("label_suspect", "copy_suspect", "avg_disagrees_with_cells")


class Row(NamedTuple):
    """What reference/published.csv says of an experiment, but for its held-out domain."""

    paper: str
    dataset: str
    backbone: str
    protocol: str
    partition: str
    method: str
    variant: str


COLUMNS = ("paper", "ds_id", "backbone", "protocol", "partition", "algo", "variant")


@dataclass(frozen=True)
class Published:
    """A printed number in the unit of our tables (accuracies: percent), a row of reference/published.csv.

    value: as printed; std: the printed spread, as a standard deviation; kind: what the reference takes the
    spread for ("" for none); n: over how many seeds, in its words; judged: what it takes the value for (NaN
    for a slip whose right value is unknown); remark, spread: what a reader must know of the value and of
    the spread, "" for nothing; row, target: which experiment it is of ("mean": all held-out domains of the
    paper); uid: its row_uid; name: its metric_id; half: half of its last digit, 0 of a setting.
    """

    value: float
    std: float
    kind: str
    n: str
    judged: float
    remark: str
    spread: str
    row: Row
    target: str
    name: str
    half: float
    uid: str


def find(
    workspace: Workspace, experiment: Experiment, method: str, values: dict[str, Any], metric: str
) -> Published | None:
    """The printed `metric` of a method at the axis `values`, or None where the paper prints none.

    The experiment's `published` gives the run_key's template; an average over targets is printed under the
    target "mean".
    """
    printed = _printed(workspace)
    return next(filter(None, map(printed.get, keys(experiment, method, values, metric))), None)


def keys(
    experiment: Experiment, method: str, values: dict[str, Any], metric: str
) -> Iterator[tuple[str, str]]:
    """Where the number of a cell would stand in reference/published.csv: run_key and metric_id, the first of
    which counts.
    """
    values = {"target": "mean", **values, "method": method}
    own = column(metric)
    if own.kind == "layer":
        values["layer"] = f"layer{own.name.partition('.')[2]}"
    for template in experiment.templates(method):
        if not {*FIELD.findall(template)} <= {*values}:
            continue  # The cell is an average over an axis that the paper keeps apart.
        key = FIELD.sub(lambda field: str(values[field[1]]), template)
        yield from ((key, name) for name in ids(metric))


def scaled(
    workspace: Workspace,
    experiment: Experiment,
    table: Table,
    values: dict[str, Any],
    metric: str,
    printed: Published,
) -> Published:
    """A printed number as the cell has it: where that is a ratio, over the one of the row `against`."""
    if column(metric).relative != "ratio":
        return printed
    base = find(workspace, experiment, table.against, values, metric)
    over = base.judged if base else math.nan
    numbers = {name: getattr(printed, name) / over for name in ("value", "judged", "half")}
    return replace(printed, **numbers, std=math.nan)


@functools.cache
def targets(workspace: Workspace, paper: str, dataset: str) -> frozenset[str]:
    """The held-out domains that a paper averages over on a data set: those with a number of their own."""
    every = _printed(workspace).values()
    return frozenset(
        printed.target
        for printed in every
        if printed.row[:2] == (paper, dataset) and printed.target not in ("", "mean", "all_clients")
    )


@functools.cache
def data_sets(workspace: Workspace) -> dict[str, str]:
    """What papers call a data set -> its name here."""
    every = rows(workspace.reference / "published.csv")
    return {row["dataset"]: row["ds_id"] for row in every if row["dataset"] and row["ds_id"]}


@functools.cache
def by_uid(workspace: Workspace) -> dict[str, Published]:
    """Every printed number, and printed layer, by its row_uid; those that a paper prints again in another
    table too.
    """
    every = rows(workspace.reference / "published.csv")
    return {row["row_uid"]: _row(row) for row in every if row["mean"] or row["metric_id"] == LAYER}


@functools.cache
def _printed(workspace: Workspace) -> dict[tuple[str, str], Published]:
    """The first of each number, by run_key and metric_id."""
    known = by_uid(workspace)
    first = [row for row in rows(workspace.reference / "published.csv") if not row["same_as"]]
    return {
        (row["run_key"], row["metric_id"]): known[row["row_uid"]] for row in first if row["row_uid"] in known
    }


@functools.cache
def rows(path: Path) -> list[dict[str, str]]:
    """All rows of reference/published.csv as text, those that are lost in our copy too."""
    return read_rows(path)


def _row(row: dict[str, str]) -> Published:
    """A line of reference/published.csv, in the units that tables show."""
    name, n, std = row["metric_id"], row["n_seeds"], float(row["std"] or "nan")
    unit, kind = UNITS.get(name, 1.0), "" if math.isnan(std) else row["spread_kind"]
    if kind == "ci95":  # of half-width 1 the standard deviation is sqrt(n) / t
        from scipy.special import stdtrit  # Student's quantile; scipy.stats takes seconds to import

        std *= float(math.sqrt(int(n)) / stdtrit(int(n) - 1, 0.975))
    text, remark = row["mean"] or "nan", ""
    # A searched value is taken as it is printed; the reference judges numbers that runs measured.
    mean, judged, half = float(text), float(row["value_judge"] or "nan"), 0.0
    if name.startswith(DECLARED):
        judged = float(row["value_judge"] or text)
    else:
        exponent = Decimal(text).as_tuple().exponent  # of "1.30" -2: half of the last digit is 0.005
        half = 10.0**exponent / 2 if isinstance(exponent, int) else math.nan
        why = row["note"] or row["audit_note"]
        if judged == mean:
            remark = f"judged as printed, but in doubt: {why}" if row["value_kind"] in DOUBTED else ""
        elif math.isnan(judged):
            remark = f"the printed {mean:g} is a slip, and no difference is shown ({why})"
        else:
            remark = f"the printed {mean:g} is taken for {judged:g}, which the difference is from ({why})"
    return Published(
        value=mean * unit,
        std=std,
        kind=kind,
        n=n,
        judged=judged * unit,
        remark=remark,
        spread=SPREADS.get(kind, "").format(n=n),
        row=Row(*(row[column] for column in COLUMNS)),
        target=row["target"],
        name=name,
        half=half * unit,
        uid=row["row_uid"],
    )
