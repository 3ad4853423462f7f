"""The papers' numbers (reference/published.csv): the number of each cell, and whether it may be compared.

A published row has a paper, data set, network, protocol, partition, method and variant. It resolves to a
spec: the file reference/published.yaml specifies its protocol (of reference/protocols) and the settings of
the row itself. Each field in which a run differs from it is a reason why the two are different experiments.
Exceptions:

- the seed, how often a run is evaluated, and which weights it saves;
- fp32 and tf32, which are one class of precision;
- a hyper-parameter that the paper searched, at another value of its grid (`grid` in
  reference/protocols/<protocol>.yaml and reference/presets/<method>.yaml);
- for pooled training (one model on all data): which client holds which images, who participates, and weights.
"""

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pandas as pd

from fedshift.common.errors import unknown
from fedshift.common.files import dotted, read_rows
from fedshift.common.yaml_file import read
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.protocols import Partial, Protocol, Space, merge, printed_grid, protocol
from fedshift.experiments.schema import FIELD, HELD_OUT, AxisValues, Experiment, Table
from fedshift.spec import Closed, RunSpec, closed
from fedshift.spec.resolve import complete
from fedshift.storage.workspace import Workspace

AVERAGE = "Average"  # over targets, as a table's column has it
JudgedBy = Literal["points", "percent", "exact"]
LAYER = "architecture"
COPIED = "hp:"  # beginning of a setting's metric_id
# Column -> metric_ids, the first of which counts. Of a quantity that is not here: acc_<its name>.
NAMES = {
    "ood": ("acc_ood", "acc_target"),  # papers with one domain at a time have no name for it
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
# metric_id -> factor from a published number to our unit: FDSE has 1e7 parameters and 1e10 multiply-adds of a
# batch of 50.
UNITS = {"params_1e7": 10.0, "macs_1e10": 1e4 / 50}
# Beginning of a metric_id -> rule: "points", a margin in percentage points; "percent", one in percent of the
# published number; "exact", to the last published digit.
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
DECLARED = (COPIED, LAYER)  # the specification itself is compared


def ids(text: str) -> tuple[str, ...]:
    """The metric_ids under which a column may be published."""
    if column(text).kind == "layer":
        return (LAYER,)
    return NAMES.get(text, (f"acc_{text}",))


def judged_by(metric_id: str) -> JudgedBy:
    """The rule by which a published number is judged."""
    return next(rule for start, rule in RULES.items() if metric_id.startswith(start))


# The meaning of a published +- that is not a standard deviation over seeds. For hFedF's, see the notes of its
# protocol.
SPREADS = {
    "ci95": "the published ± is the half-width of a 95% interval of {n} runs; shown is its standard "
    "deviation, half-width times sqrt({n}) over Student's t",
    "unstated_in_brackets": "the paper prints the number after ± in brackets and does not say what it is",
}

# Kinds of published numbers that are probably wrong, with unknown correct value.
DOUBTED = ("label_suspect", "copy_suspect", "avg_disagrees_with_cells")


class Row(NamedTuple):
    """The columns of reference/published.csv that identify an experiment, except its held-out domain."""

    paper: str
    ds_id: str
    backbone: str
    protocol: str
    partition: str
    algo: str
    variant: str


@dataclass(frozen=True)
class Published:
    """A published number (a row of reference/published.csv) in the unit of our tables; accuracies in percent.

    `value`: the number in the paper.
    `std`: its published spread, as a standard deviation.
    `kind`: the kind of spread according to the reference, "" for none.
    `n`: the number of seeds, in words of the reference.
    `judged`: the value that the reference takes as correct; NaN for a misprint with unknown correct value.
    `remark`, `spread`: what a reader must know of the value and of its spread, "" for nothing.
    `row`, `target`: the experiment it belongs to. "mean": all held-out domains of the paper.
    `uid`: its row_uid.
    `name`: its metric_id.
    `half`: half of its last digit, 0 for a setting.
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
    workspace: Workspace, experiment: Experiment, method: str, values: Mapping[str, Any], metric: str
) -> Published | None:
    """The published `metric` of a method at the axis `values`; None where the paper has none."""
    printed = _printed(workspace)
    return next(filter(None, map(printed.get, keys(experiment, method, values, metric))), None)


def keys(
    experiment: Experiment, method: str, values: Mapping[str, Any], metric: str
) -> Iterator[tuple[str, str]]:
    """The keys (run_key, metric_id) that a cell's number may have in reference/published.csv.

    The first key with a number counts. The experiment's `published` has the template of the run_key, in which
    an average over targets has the target "mean". An axis with one value is known without `values`.
    """
    single = {name: axis.values[0] for name, axis in experiment.axes.items() if len(axis.values) == 1}
    named = {axis: "mean" if value == AVERAGE else value for axis, value in values.items()}
    named = {**single, "target": "mean", **named, "method": method}
    own = column(metric)
    if own.kind == "layer":
        named["layer"] = f"layer{own.name.partition('.')[2]}"
    for template in experiment.templates(method):
        if not {*FIELD.findall(template)} <= {*named}:
            continue  # The cell is an average over an axis over which the paper does not average.
        key = FIELD.sub(lambda field: str(named[field[1]]), template)
        yield from ((key, name) for name in ids(metric))


def ratio(printed: Published, base: Published | None) -> Published:
    """A published number as its ratio to another; NaN where that is not published."""
    over = base.judged if base else math.nan
    numbers = {name: getattr(printed, name) / over for name in ("value", "judged", "half")}
    return replace(printed, **numbers, std=math.nan)


@functools.cache
def targets(workspace: Workspace, paper: str, dataset: str) -> frozenset[str]:
    """The held-out domains that a paper averages over on a data set, that is, those with separate numbers."""
    every = _printed(workspace).values()
    return frozenset(
        printed.target
        for printed in every
        if printed.row[:2] == (paper, dataset) and printed.target not in ("", "mean", "all_clients")
    )


@functools.cache
def data_sets(workspace: Workspace) -> dict[str, str]:
    """The papers' names of data sets -> their names here."""
    return {row["dataset"]: row["ds_id"] for row in rows(workspace) if row["dataset"] and row["ds_id"]}


@functools.cache
def by_uid(workspace: Workspace) -> dict[str, Published]:
    """Every published number and layer, by row_uid, including those that a paper repeats in another table."""
    every = rows(workspace)
    return {row["row_uid"]: _row(row) for row in every if row["mean"] or row["metric_id"] == LAYER}


@functools.cache
def _printed(workspace: Workspace) -> dict[tuple[str, str], Published]:
    """The first occurrence of each number, by run_key and metric_id."""
    known = by_uid(workspace)
    first = [row for row in rows(workspace) if not row["same_as"] and row["row_uid"] in known]
    return {(row["run_key"], row["metric_id"]): known[row["row_uid"]] for row in first}


@functools.cache
def rows(workspace: Workspace) -> list[dict[str, str]]:
    """All rows of reference/published.csv as text, including those that are lost in our copy."""
    return read_rows(workspace.reference / "published.csv")


def _row(row: dict[str, str]) -> Published:
    """A line of reference/published.csv, in the units of tables."""
    name, n, std = row["metric_id"], row["n_seeds"], float(row["std"] or "nan")
    unit, kind = UNITS.get(name, 1.0), "" if math.isnan(std) else row["spread_kind"]
    if kind == "ci95":  # of half-width 1 the standard deviation is sqrt(n) / t
        from scipy.special import stdtrit  # Student's quantile; scipy.stats takes seconds to import

        std *= float(math.sqrt(int(n)) / stdtrit(int(n) - 1, 0.975))
    text, remark = row["mean"] or "nan", ""
    # A searched value is taken as published; the reference judges measured numbers only.
    mean, judged, half = float(text), float(row["value_judge"] or "nan"), 0.0
    if name.startswith(DECLARED):
        judged = float(row["value_judge"] or text)
    else:
        exponent = Decimal(text).as_tuple().exponent  # of "1.30" -2: half of the last digit is 0.005
        half = 10.0**exponent / 2 if isinstance(exponent, int) else math.nan
        why = row["note"] or row["audit_note"]
        if judged == mean:
            remark = f"judged as published, but in doubt: {why}" if row["value_kind"] in DOUBTED else ""
        elif math.isnan(judged):
            remark = f"the published {mean:g} is a slip, and no difference is shown ({why})"
        else:
            remark = (
                f"the published {mean:g} is interpreted as {judged:g}, which the difference is from ({why})"
            )
    return Published(
        value=mean * unit,
        std=std,
        kind=kind,
        n=n,
        judged=judged * unit,
        remark=remark,
        spread=SPREADS.get(kind, "").format(n=n),
        row=Row(*(row[name] for name in Row._fields)),
        target=row["target"],
        name=name,
        half=half * unit,
        uid=row["row_uid"],
    )


NO_TARGET = ("personal_all_clients", "cost")  # protocols of the reference that hold out no domain


class Setting(Closed):
    """The settings of a published row's training.

    `protocol`, `spec`: its protocol, and the settings that differ from it.
    `presets`: by method.
    `adapt`: an adaptation before the test.
    `over`: dotted key -> the values over which the row is a mean.
    """

    protocol: str = ""
    spec: Partial = {}
    presets: dict[str, str] = {}
    adapt: str = ""
    over: dict[str, list[Any]] = {}


class Margin(Closed):
    """The widest interval, on either side, at which our number still counts as consistent with a paper's.

    `points`: in percentage points, by data set.
    `percent`: in percent, for a time relative to another's.
    `why`: the reason for these values.
    """

    points: dict[str, float]
    percent: float
    why: str

    def of(self, dataset: str) -> float:
        """The margin in points on a data set; the widest one for numbers of no or several data sets."""
        return self.points.get(dataset, max(self.points.values()))


class Settings(Closed):
    """reference/published.yaml, in four parts.

    They are by paper; by paper and protocol/partition; by network in the paper; and by method and variant.
    """

    margins: dict[str, Margin]
    protocols: dict[str, dict[str, Setting]]
    backbones: dict[str, str | None]
    variants: dict[str, dict[str, Setting]]


@functools.cache
def setting(workspace: Workspace, row: Row) -> Setting | None:
    """All settings of a row in addition to its protocol's on its data set; None if they are not declared."""
    known = _known(workspace)
    base = known.protocols.get(row.paper, {}).get(f"{row.protocol}/{row.partition}")
    variants = {"default": Setting(), **known.variants.get(row.algo, {})}
    if base is None or row.variant not in variants or row.backbone not in known.backbones:
        return None
    variant, network = variants[row.variant], known.backbones[row.backbone]
    parts: list[Partial] = [base.spec, {"model": {"name": network}} if network else {}, variant.spec]
    spec = merge(*parts, {"method": {"name": row.algo}})
    return base.model_copy(update={"spec": spec, "adapt": variant.adapt})


@functools.cache
def resolved(workspace: Workspace, row: Row) -> RunSpec:
    """The spec of a row with declared settings; of several held-out domains, the first."""
    known = setting(workspace, row)
    assert known is not None
    target = None if row.protocol in NO_TARGET else min(targets(workspace, row.paper, row.ds_id))
    preset = {"preset": known.presets[row.algo]} if row.algo in known.presets else {}
    experiment = Experiment(
        name="reference/published",
        title="",
        protocol=known.protocol,
        spec={"data": {"dataset": row.ds_id}},
        methods={row.algo: {**preset, **known.spec}},
        axes={"target": AxisValues(key=HELD_OUT, values=[target])},
        figures=[],
    )
    return expand(workspace, experiment, built=False)[0].spec


def margin(workspace: Workspace, paper: str) -> Margin:
    """The declared margin of a paper. Raises FedshiftError if it has none."""
    margins = _known(workspace).margins
    if paper not in margins:
        raise unknown("reference/published.yaml: margins", "paper", paper, margins)
    return margins[paper]


@functools.cache
def _known(workspace: Workspace) -> Settings:
    return closed(Settings, read(workspace.reference / "published.yaml"), "reference/published.yaml")


CLASSES = {"tf32": "fp32"}  # precision -> the class that it is of
FREE = ("seed", "evaluation", "data.target")  # the target is compared by cell: an average is over many
POOLED = ("partition.scheme", "partition.params", "federation.participation", "federation.weights")
OWNERS = {"method": "name", "model": "name", "partition": "scheme"}  # block with `params` -> whose they are
Difference = tuple[str, str, str]  # dotted key, ours, theirs


def differences(
    workspace: Workspace, own_protocol: Protocol, printed: Published, runs: pd.DataFrame
) -> list[str]:
    """Each setting in which the runs of a cell differ from a published row.

    An example is "federation.rounds 10, paper 500". Empty if they are comparable.

    `own_protocol`: the protocol whose rule chose the round.
    `runs`: rows of Collected.runs, with `spec` and `adaptation`.
    """
    wanted = setting(workspace, printed.row)
    if wanted is None:
        what = "/".join(printed.row[1:])
        return [f"what the paper trained {what} with is not written down (reference/published.yaml)"]
    specs = [*dict.fromkeys(map(without_seed, runs["spec"]))]
    ours_by_key: dict[tuple[str, str], dict[str, None]] = {}
    for key, ours, theirs in (of for text in specs for of in _of_run(workspace, printed.row, text)):
        ours_by_key.setdefault((key, theirs), {})[ours] = None
    reasons = [f"{key} {', '.join(values)}, paper {theirs}" for (key, theirs), values in ours_by_key.items()]
    tasks = ["" if pd.isna(text) else str(text) for text in runs["adaptation"]]
    adapted = dict.fromkeys(json.loads(text)["task"]["evaluation"] if text else "" for text in tasks)
    if adapted.keys() != {wanted.adapt}:
        reasons.append(f"adapted by {', '.join(adapted) or 'nothing'}, paper {wanted.adapt or 'nothing'}")
    # An average must be over the paper's domains, a single domain must be the paper's.
    held_out = [flat(text)["data.target"] for text in specs]
    if any(isinstance(target, list) for target in held_out):
        reasons.append("two domains held out, paper one")
    domains = {target[0] if isinstance(target, list) else target or "none" for target in held_out}
    of_paper = {printed.target}
    if printed.target == "mean":
        of_paper = {*targets(workspace, *printed.row[:2])}
    elif printed.target in ("all_clients", ""):
        of_paper = {"none"}
    if domains != of_paper:
        reasons.append(f"data.target {', '.join(sorted(domains))}, paper {', '.join(sorted(of_paper))}")
    for key, over in wanted.over.items():  # a mean over values of a setting must be over these
        own = {flat(text).get(key) for text in specs}
        if own != {*over}:
            listed = (", ".join(map(_text, sorted(values, key=str))) for values in (own, over))
            reasons.append("{} over {}, paper {}".format(key, *listed))
    if (chosen := own_protocol.select) != (rule := _protocol(workspace, wanted.protocol).select):
        reasons.append(f"select {chosen}, paper {rule}")
    return reasons


def compare(
    ours: RunSpec, theirs: RunSpec, free: Iterable[str] = FREE, grid: Mapping[str, Space] | None = None
) -> Iterator[Difference]:
    """The differences between two resolved specs, except in keys at or below `free`, and within a `grid`."""
    left, right = (flat(spec.model_dump_json()) for spec in (ours, theirs))
    # Parameters of another method, or of another change of the partition, need no line each.
    others = [
        f"{block}.params"
        for block, name in OWNERS.items()
        if left[f"{block}.{name}"] != right[f"{block}.{name}"]
    ]
    if left["modify"] != right["modify"]:
        others.append("partition.modify")
    for key in dict.fromkeys([*left, *right]):
        value, other = left.get(key), right.get(key)
        if value == other or any(key == name or key.startswith(f"{name}.") for name in (*free, *others)):
            continue
        if value not in (grid or {}).get(key, ()):
            yield key, _text(value), _text(other)


@functools.lru_cache(4096)
def _of_run(workspace: Workspace, row: Row, text: str) -> list[Difference]:
    ours = RunSpec.model_validate_json(text)
    row = row if row.ds_id else row._replace(ds_id=ours.data.dataset)  # without a data set: any
    if ours.data.dataset != row.ds_id:
        return [("data.dataset", ours.data.dataset, row.ds_id)]
    known = setting(workspace, row)
    assert known is not None
    free = (*FREE, *(POOLED if row.partition == "pooled" else ()), *known.over)
    return list(compare(ours, resolved(workspace, row), free, _grid(workspace, known.protocol, row.algo)))


_grid, _protocol = functools.cache(printed_grid), functools.cache(protocol)


@functools.cache
def without_seed(text: str) -> str:
    """A spec (JSON) with seed 0, the same for all seeds."""
    return json.dumps({**json.loads(text), "seed": 0})


@functools.lru_cache(8192)
def flat(text: str) -> dict[str, Any]:
    """A spec (JSON) by dotted key, with the default of every parameter that it does not set.

    `modify` has the names of the changes of its partition, and `local.precision` its class.
    """
    values = complete(RunSpec.model_validate_json(text)).model_dump(mode="json")
    values["local"]["precision"] = CLASSES.get(values["local"]["precision"], values["local"]["precision"])
    values["modify"] = ", ".join(values["partition"]["modify"]) or "none"
    return dict(dotted(values))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


UNIT = "the row that the table's ratios are to"


def printed_cell(
    workspace: Workspace,
    experiment: Experiment,
    protocol: Protocol,
    table: Table,
    place: tuple[str, dict[str, Any], str],
    own: pd.DataFrame,
    base: pd.DataFrame,
) -> tuple[Published | None, list[str]]:
    """The published number of a cell (None: not published), and its `differences`.

    A declared setting is always comparable.

    `place`: row, values on the axes (AVERAGE: over targets) and metric.
    `own`, `base`: the runs of the row and of the row `against` in the same column, as for `differences`.
    """
    row, values, metric = place
    relative, printed = column(metric).relative, find(workspace, experiment, row, values, metric)
    if printed is None or printed.name.startswith(DECLARED):
        return printed, []
    differs = differences(workspace, protocol, printed, own)
    if relative == "gain":  # of the paper's unchanged method over the row's
        of = replace(printed, row=printed.row._replace(variant="default"))
        differs += differences(workspace, protocol, of, base)
    if relative == "ratio":
        differs += [UNIT] if row == table.against else []
        unit = find(workspace, experiment, table.against, values, metric)
        differs += differences(workspace, protocol, unit, base) if unit else []
        printed = ratio(printed, unit)
    return printed, list(dict.fromkeys(differs))
