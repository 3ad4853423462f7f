"""Comparable: whether a printed number may stand beside runs, derived from what both were trained with.

A printed row resolves to a spec (fedshift.analysis.printed.spec). Every field in which a run differs from it
is a reason why the two are of different experiments, but for

- the seed, how often a run is evaluated, and which weights it keeps;
- fp32 and tf32, which are one class of precision;
- a hyper-parameter that the paper searched, at another value of its grid (`grid` in
  reference/protocols/<protocol>.yaml and reference/presets/<method>.yaml);
- of pooled training (one model on all data): who holds what, who takes part, with what weight.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedshift.analysis.printed.published import Published, Row, targets
from fedshift.analysis.printed.spec import Setting, resolved, setting
from fedshift.common.registry import get
from fedshift.experiments.protocols import Protocol, Rule, Space, dotted, printed_grid, protocol
from fedshift.spec import RunSpec
from fedshift.spec.block import params
from fedshift.storage.workspace import Workspace

CLASSES = {"tf32": "fp32"}  # precision -> the class that it is of
FREE = ("seed", "evaluation", "data.target")  # the target is compared by cell: an average is over many
POOLED = ("partition.scheme", "partition.params", "federation.participation", "federation.weights")
OWNERS = {"method": "name", "model": "name", "partition": "scheme"}  # block with `params` -> whose they are
KINDS = {"method": "methods", "model": "models", "partition": "partitions"}
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
    adapted = dict.fromkeys(_adaptation(text) for text in runs["adaptation"])
    if adapted.keys() != {wanted.adapt}:
        reasons.append(f"adapted by {', '.join(adapted) or 'nothing'}, paper {wanted.adapt or 'nothing'}")
    reasons += _held_out(workspace, printed, specs)
    reasons += _averaged(wanted, specs)
    if (ours := own_protocol.select) != (theirs := _rule(workspace, wanted.protocol)):
        reasons.append(f"select {ours}, paper {theirs}")
    return reasons


def compare(
    ours: RunSpec, theirs: RunSpec, free: Iterable[str] = FREE, grid: Mapping[str, Space] | None = None
) -> Iterator[Difference]:
    """Where two resolved specs differ; keys in or below `free` may, and those of a grid within it."""
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


@functools.cache
def _rule(workspace: Workspace, name: str) -> Rule:
    return protocol(workspace, name).select


@functools.cache
def _grid(workspace: Workspace, name: str, method: str) -> dict[str, Space]:
    return printed_grid(workspace, name, method)


def _held_out(workspace: Workspace, printed: Published, specs: Sequence[str]) -> Iterator[str]:
    """An average must be over the domains that the paper averages over, a domain must be that domain."""
    held_out = [_domains(text) for text in specs]
    if max(map(len, held_out)) > 1:
        yield "two domains held out, paper one"
    theirs = {
        "mean": targets(workspace, *printed.row[:2]), "all_clients": frozenset({"none"}),
        "": frozenset({"none"}),
    }.get(printed.target, frozenset({printed.target}))  # fmt: skip
    ours = {domains[0] if domains else "none" for domains in held_out}
    if ours != theirs:
        yield f"data.target {', '.join(sorted(ours))}, paper {', '.join(sorted(theirs))}"


def _averaged(wanted: Setting, specs: Sequence[str]) -> Iterator[str]:
    """A mean over values of a setting must be over these."""
    for key, theirs in wanted.over.items():
        ours = {flat(text).get(key) for text in specs}
        if ours != {*theirs}:
            listed = (", ".join(map(_text, sorted(values, key=str))) for values in (ours, theirs))
            yield "{} over {}, paper {}".format(key, *listed)


@functools.cache
def _domains(text: str) -> tuple[str, ...]:
    return tuple(RunSpec.model_validate_json(text).data.held_out)


def _adaptation(text: str | None) -> str:
    return "" if pd.isna(text) or not text else str(json.loads(text)["task"]["evaluation"])


@functools.cache
def _without_seed(text: str) -> str:
    return json.dumps({**json.loads(text), "seed": 0})


def filled(spec: RunSpec) -> dict[str, Any]:
    """A spec with the default of every parameter that it does not set, and `modify`: the names of the changes
    of its partition.
    """
    values: dict[str, Any] = spec.model_dump(mode="json")
    for block, kind in KINDS.items():
        plugin = get(kind, values[block][OWNERS[block]])
        values[block]["params"] = dataclasses.asdict(params(plugin, values[block]["params"]))
    for name, declared in values["partition"]["modify"].items():
        values["partition"]["modify"][name] = dataclasses.asdict(params(get("modifiers", name), declared))
    return {**values, "modify": ", ".join(values["partition"]["modify"]) or "none"}


@functools.lru_cache(8192)
def flat(text: str) -> dict[str, Any]:
    """A spec (JSON) by dotted key, filled."""
    values = filled(RunSpec.model_validate_json(text))
    return {key: [*value] if isinstance(value, tuple) else value for key, value in dotted(values)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
