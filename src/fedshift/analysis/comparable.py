"""Whether a printed number may stand beside runs, derived from what both were trained with.

A printed row names its paper, data set, network, protocol, partition, method and variant;
reference/published.yaml says which protocol of reference/protocols that is and what the row sets itself. So
it resolves to a spec. Every field in which a run differs from it is a reason why the two are of different
experiments, but for

- the seed, how often a run is evaluated, and which weights it keeps;
- fp32 and tf32, which are one class of precision;
- a hyper-parameter that the paper searched, at another value of its grid (`grid` in
  reference/protocols/<protocol>.yaml and reference/presets/<method>.yaml);
- of pooled training (one model on all data): who holds what, who takes part, with what weight.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.published import DECLARED, Published, Row, find, scaled, targets
from fedshift.common.errors import unknown
from fedshift.common.files import dotted
from fedshift.common.registry import get
from fedshift.common.yaml_file import read
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.protocols import (
    Partial,
    Protocol,
    Rule,
    Space,
    merge,
    printed_grid,
    protocol,
)
from fedshift.experiments.schema import HELD_OUT, AxisValues, Experiment, Table
from fedshift.spec import Closed, RunSpec, closed
from fedshift.spec.block import params
from fedshift.storage.workspace import Workspace

NO_TARGET = ("personal_all_clients", "cost")  # protocols of the reference that hold out no domain


class Setting(Closed):
    """What a row was trained with: a protocol, what differs from it, presets by method, an adaptation before
    the test; over: dotted key -> the values over which the row is a mean.
    """

    protocol: str = ""
    spec: Partial = {}
    presets: dict[str, str] = {}
    adapt: str = ""
    over: dict[str, list[Any]] = {}


class Margin(Closed):
    """The widest interval, on either side, that still tells that a number of ours is a paper's: in percentage
    points by data set, and in percent of a time over another's; why these.
    """

    points: dict[str, float]
    percent: float
    why: str

    def of(self, dataset: str) -> float:
        """In points; of what is of no data set, or of several, the widest."""
        return self.points.get(dataset, max(self.points.values()))


class Settings(Closed):
    """reference/published.yaml: by paper; by paper and protocol/partition; by printed network; by method and
    variant.
    """

    margins: dict[str, Margin]
    protocols: dict[str, dict[str, Setting]]
    backbones: dict[str, str | None]
    variants: dict[str, dict[str, Setting]]


@functools.cache
def setting(workspace: Workspace, row: Row) -> Setting | None:
    """All that the row sets over its protocol on its data set; None where that is not written down."""
    known = _known(workspace)
    base = known.protocols.get(row.paper, {}).get(f"{row.protocol}/{row.partition}")
    variants = {"default": Setting(), **known.variants.get(row.method, {})}
    if base is None or row.variant not in variants or row.backbone not in known.backbones:
        return None
    variant, network = variants[row.variant], known.backbones[row.backbone]
    parts: list[Partial] = [base.spec, {"model": {"name": network}} if network else {}, variant.spec]
    spec = merge(*parts, {"method": {"name": row.method}})
    return base.model_copy(update={"spec": spec, "adapt": variant.adapt})


@functools.cache
def resolved(workspace: Workspace, row: Row) -> RunSpec:
    """The spec of a row, whose setting must be known; of the domains that it holds out by turns, the
    first.
    """
    known = setting(workspace, row)
    assert known is not None
    target = None if row.protocol in NO_TARGET else min(targets(workspace, row.paper, row.dataset))
    preset = {"preset": known.presets[row.method]} if row.method in known.presets else {}
    experiment = Experiment(
        name="reference/published",
        title="",
        protocol=known.protocol,
        spec={"data": {"dataset": row.dataset}},
        methods={row.method: {**preset, **known.spec}},
        axes={"target": AxisValues(key=HELD_OUT, values=[target])},
    )
    return expand(workspace, experiment)[0].spec


def margin(workspace: Workspace, paper: str) -> Margin:
    """The declared margin of a paper. Raises FedshiftError where none is."""
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
# Block with `params` -> the key of whose they are, and its kind of plug-ins.
OWNERS = {"method": ("name", "methods"), "model": ("name", "models"), "partition": ("scheme", "partitions")}
Difference = tuple[str, str, str]  # dotted key, ours, theirs


def differences(
    workspace: Workspace, own_protocol: Protocol, printed: Published, runs: pd.DataFrame
) -> list[str]:
    """Each setting in which the runs of a cell differ from a printed row ("federation.rounds 10, paper 500");
    none: they are comparable.

    runs: rows of Collected.runs, of which `spec` and `adaptation` are read; own_protocol: the one
        whose rule chose the round.
    """
    wanted = setting(workspace, printed.row)
    if wanted is None:
        what = "/".join(printed.row[1:])
        return [f"what the paper trained {what} with is not written down (reference/published.yaml)"]
    specs = [*dict.fromkeys(runs["spec"])]
    values_by_key: dict[tuple[str, str], dict[str, None]] = {}
    for text in dict.fromkeys(map(_without_seed, specs)):
        for key, ours, theirs in _of_run(workspace, printed.row, text):
            values_by_key.setdefault((key, theirs), {})[ours] = None
    reasons = [f"{key} {', '.join(ours)}, paper {theirs}" for (key, theirs), ours in values_by_key.items()]
    tasks = ["" if pd.isna(text) else str(text) for text in runs["adaptation"]]
    adapted = dict.fromkeys(json.loads(text)["task"]["evaluation"] if text else "" for text in tasks)
    if adapted.keys() != {wanted.adapt}:
        reasons.append(f"adapted by {', '.join(adapted) or 'nothing'}, paper {wanted.adapt or 'nothing'}")
    # An average must be over the domains that the paper averages over, a domain must be that domain.
    held_out = [_domains(text) for text in specs]
    if max(map(len, held_out)) > 1:
        reasons.append("two domains held out, paper one")
    domains = {domains[0] if domains else "none" for domains in held_out}
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
    if (chosen := own_protocol.select) != (rule := _rule(workspace, wanted.protocol)):
        reasons.append(f"select {chosen}, paper {rule}")
    return reasons


def compare(
    ours: RunSpec, theirs: RunSpec, free: Iterable[str] = FREE, grid: Mapping[str, Space] | None = None
) -> Iterator[Difference]:
    """Where two resolved specs differ; keys in or below `free` may, and those of a grid within it."""
    left, right = (flat(spec.model_dump_json()) for spec in (ours, theirs))
    # Parameters of another method, or of another change of the partition, need no line each.
    others = [
        f"{block}.params"
        for block, (name, _) in OWNERS.items()
        if left[f"{block}.{name}"] != right[f"{block}.{name}"]
    ]
    if left["modify"] != right["modify"]:
        others.append("partition.modify")
    for key in dict.fromkeys([*left, *right]):
        value, other = (
            CLASSES.get(side[key], side[key]) if key == "local.precision" else side.get(key)
            for side in (left, right)
        )
        if value == other or any(key == name or key.startswith(f"{name}.") for name in (*free, *others)):
            continue
        if value not in (grid or {}).get(key, ()):
            yield key, _text(value), _text(other)


@functools.lru_cache(4096)
def _of_run(workspace: Workspace, row: Row, text: str) -> list[Difference]:
    ours = RunSpec.model_validate_json(text)
    row = row if row.dataset else row._replace(dataset=ours.data.dataset)  # of no data set: of any
    if ours.data.dataset != row.dataset:
        return [("data.dataset", ours.data.dataset, row.dataset)]
    known = setting(workspace, row)
    grid = _grid(workspace, known.protocol, row.method) if known else {}
    free = (*FREE, *(POOLED if row.partition == "pooled" else ()), *(known.over if known else ()))
    return list(compare(ours, resolved(workspace, row), free, grid))


_grid = functools.cache(printed_grid)


@functools.cache
def _rule(workspace: Workspace, name: str) -> Rule:
    return protocol(workspace, name).select


@functools.cache
def _domains(text: str) -> tuple[str, ...]:
    return tuple(RunSpec.model_validate_json(text).data.held_out)


@functools.cache
def _without_seed(text: str) -> str:
    return json.dumps({**json.loads(text), "seed": 0})


@functools.lru_cache(8192)
def flat(text: str) -> dict[str, Any]:
    """A spec (JSON) by dotted key, with the default of every parameter that it does not set, and `modify`:
    the names of the changes of its partition.
    """
    values: dict[str, Any] = RunSpec.model_validate_json(text).model_dump(mode="json")
    for block, (name, kind) in OWNERS.items():
        plugin = get(kind, values[block][name])
        values[block]["params"] = dataclasses.asdict(params(plugin, values[block]["params"]))
    modify = values["partition"]["modify"]
    for name, declared in modify.items():
        modify[name] = dataclasses.asdict(params(get("modifiers", name), declared))
    values["modify"] = ", ".join(modify) or "none"
    return {key: [*value] if isinstance(value, tuple) else value for key, value in dotted(values)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


UNIT = "the row that the table's ratios are to"


def printed_cell(
    workspace: Workspace,
    experiment: Experiment,
    protocol: Protocol,
    table: Table,
    place: tuple[str, dict[str, Any], str],
    runs_of: Callable[[str], pd.DataFrame],
) -> tuple[Published | None, list[str]]:
    """The number, None where the paper prints none, and each setting in which the cell's runs are not its.

    place: row, values on the axes ("mean": averaged over targets) and metric; runs_of: the runs of a row in
    the same column, rows of Collected.runs. What a declaration says itself is compared whatever else is
    declared.
    """
    row, values, metric = place
    own = column(metric)
    printed = find(workspace, experiment, row, values, metric)
    if printed is None or printed.name.startswith(DECLARED):
        return printed, []
    differs = differences(workspace, protocol, printed, runs_of(row))
    if own.relative == "gain":  # of the paper's method as it is over what the row is of
        of = replace(printed, row=printed.row._replace(variant="default"))
        differs += differences(workspace, protocol, of, runs_of(table.against))
    if own.relative == "ratio":
        differs += [UNIT] if row == table.against else []
        base = find(workspace, experiment, table.against, values, metric)
        differs += differences(workspace, protocol, base, runs_of(table.against)) if base else []
        printed = scaled(workspace, experiment, table, values, metric, printed)
    return printed, list(dict.fromkeys(differs))


AVERAGE = "average"  # over targets


def printed(
    workspace: Workspace, collected: Collected, method: str, point: Mapping[str, Any], metric: str
) -> float | None:
    """The published `metric` (percent) of a method at a point on the axes; `target` may be AVERAGE.

    None where the paper prints none for the experiment of these runs.
    """
    values = {axis: "mean" if value == AVERAGE else value for axis, value in point.items()}
    names = ("id", "avg") if metric == "id" else (metric,)  # two names of one quantity: papers print either
    candidates = (find(workspace, collected.experiment, method, values, name) for name in names)
    value = next(filter(None, candidates), None)
    if value is None:
        return None
    runs = collected.runs[collected.runs["method"] == method]
    for axis, wanted in point.items():
        runs = runs[runs[axis] != NONE if wanted == AVERAGE else runs[axis] == wanted]
    return None if differences(workspace, collected.protocol, value, runs) else value.value
