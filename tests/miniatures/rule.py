"""The rule by which an experiment, its protocol and what its paper printed become their miniatures.

What all rows share is made small (SMALL), in protocols, presets and the `spec` of experiments alike. What tells rows and columns
apart stays: methods, their parameters, networks and local epochs on an axis. Of the values on an axis the first and the last stay,
those that claims, `only` and `tune` name, and those over which a printed table takes the mean. So a miniature has the grid of its experiment, and its runs are comparable with the printed
numbers as far as the experiment's own are.

An experiment that trains nothing shows what declarations say: nothing of it is made small.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedshift.experiments.axes import setting
from fedshift.experiments.protocols import Partial, merge
from fedshift.experiments.schema import HELD_OUT

# Dotted key -> its small value, wherever a protocol, a preset or an experiment's `spec` sets it.
SMALL: dict[str, Any] = {
    "data.prepare.px": 32,
    "data.input_px": 32,
    "partition.split": "random",  # digits have no official lists
    "partition.params.min_size": 2,
    "model.name": "digits_cnn",
    "model.init": "scratch",
    "local.batch": 16,
    "local.epochs": 1,
    "local.precision": "fp32",  # tf32 asks for a GPU
    "federation.rounds": 2,
    "evaluation.every": 1,
}
ROWS = {"federation.rounds": SMALL["federation.rounds"]}  # of these wherever a row sets them, too
STAGES = ["stage1", "stage2", "stage3", "stage4"]  # of the small network
SEEDS = 2
BUDGET = 2  # points that a search tries for each row
ROUND = re.compile(r"round \d+")  # of a claim; miniatures have two
Domains = Callable[[str], tuple[str, ...]]  # of a data set


def small(part: Any, values: Mapping[str, Any] = SMALL, key: str = "") -> Any:
    """A part of a specification with the small value of each key that it sets."""
    if not isinstance(part, dict):
        return values.get(key, part)
    return {name: small(inner, values, f"{key}.{name}".lstrip(".")) for name, inner in part.items()}


def protocol(declared: Partial) -> Partial:
    """A file of reference/protocols in miniature."""
    datasets, presets = declared.get("datasets", {}), declared.get("presets", {})
    seeds = {"seeds": declared["seeds"][:SEEDS]} if "seeds" in declared else {}
    return {
        **declared,
        **seeds,
        "spec": small(declared["spec"]),
        "datasets": {name: _without_lists(small(part)) for name, part in datasets.items()},
        "presets": {
            name: {of: small(part) for of, part in places.items()} for name, places in presets.items()
        },
    }


def published(declared: Partial) -> Partial:
    """reference/published.yaml in miniature: the network of every row is the small one."""
    return {**declared, "backbones": dict.fromkeys(declared["backbones"], SMALL["model.name"])}


def experiment(declared: Partial, known: Partial, domains: Domains) -> Partial:
    """A file of experiments in miniature; known: the protocol that it follows, as it was before."""
    if not declared.get("train", True):
        varied = {axis["key"] for axis in declared["axes"].values() if isinstance(axis, dict)}
        common = merge(known["spec"], declared.get("spec", {}))
        return {**declared, "spec": _without({*declared["axes"], *varied}, common)}
    result = {**declared}
    result["spec"] = small(declared.get("spec", {}))
    result["methods"] = {row: small(part, ROWS) for row, part in declared["methods"].items()}
    dataset = setting(merge(known["spec"], declared.get("spec", {})), "data", "dataset", "")
    stays = [value for key in ("claims", "only", "tune") for value in named(declared.get(key))]
    stays += [*averaged(declared)]
    result["axes"] = {
        name: _axis(
            name, axis, "data.dataset" in declared["axes"], domains(dataset) if dataset else (), stays
        )
        for name, axis in declared["axes"].items()
    }
    if "tune" in declared:
        result["tune"] = _tune(declared["tune"], result["axes"], domains)
    result["claims"] = _rounds(declared.get("claims", {}))
    result["evaluations"] = [_evaluation(entry) for entry in declared.get("evaluations", [])]
    return result


def _without(keys: set[str], part: Partial, before: str = "") -> Partial:
    """A part of a specification without these dotted keys."""
    return {
        name: _without(keys, inner, f"{before}{name}.") if isinstance(inner, dict) else inner
        for name, inner in part.items()
        if f"{before}{name}" not in keys
    }


def named(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with each of its values in nested mappings and lists: what may name a value of an axis."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from ((key, one) for one in (inner if isinstance(inner, list) else [inner]))
            yield from named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named(inner)


def averaged(declared: Partial) -> Iterator[tuple[str, Any]]:
    """The values of axes over which a printed table takes the mean, and of columns for which it prints a gain:
    claims are about the mean of all, and about the gain of each.
    """
    for table in declared.get("tables", {}).values():
        gains = any(metric.startswith("gain.") for metric in table.get("metrics", ()))
        for name, axis in declared["axes"].items() if table.get("printed") else ():
            values = axis["values"] if isinstance(axis, dict) else axis
            if name not in ("target", "seed") and (gains or name not in table.get("columns", ())):
                yield from ((name, value) for value in values)


def _axis(
    name: str, axis: Any, of_data_sets: bool, domains: tuple[str, ...], stays: list[tuple[str, Any]]
) -> Any:
    """An axis with fewer values; `all` targets of several data sets stay, as each has its own."""
    values = axis["values"] if isinstance(axis, dict) else axis
    key = axis["key"] if isinstance(axis, dict) else HELD_OUT if name == "target" else name
    if key == "seed":
        fewer = values if values == "all" else values[:SEEDS]
    elif values == "all" and (of_data_sets or not domains):
        fewer = values
    else:
        every = [*domains] if values == "all" else values
        fewer = [value for value in every if value in (every[0], every[-1]) or (name, value) in stays]
    return {"key": key, "values": fewer}


def _tune(declared: Partial, axes: Partial, domains: Domains) -> Partial:
    """A search in miniature, on the targets of the data sets that are left."""
    tune = {
        **declared,
        "budget": BUDGET,
        "seeds": declared["seeds"][:1],
        "spec": small(declared.get("spec", {})),
    }
    if "target" in tune.get("axes", {}) and "data.dataset" in axes:
        known = {domain for dataset in axes["data.dataset"]["values"] for domain in domains(dataset)}
        tune["axes"] = {**tune["axes"], "target": [one for one in tune["axes"]["target"] if one in known]}
    return tune


def _evaluation(entry: Any) -> Any:
    """What kept weights are evaluated for: the small network has stages of other names, a set fewer classes,
    and a run of two rounds may report its start, where nobody has trained.
    """
    if isinstance(entry, str):
        return entry
    ((name, parameters),) = entry.items()
    kept = {key: value for key, value in parameters.items() if key not in ("classes", "stage")}
    if "stages" in kept:
        kept["stages"] = STAGES[: len(kept["stages"])]
    return {name: kept}


def _without_lists(part: Partial) -> Partial:
    """All images of the held-out domain are tested, not those of an official list."""
    division = part.get("partition", {})
    if division.get("target_split") != "test":
        return part
    return {**part, "partition": {key: value for key, value in division.items() if key != "target_split"}}


def _rounds(value: Any) -> Any:
    """Claims of a certain round are of the first."""
    if isinstance(value, dict):
        return {key: _rounds(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounds(inner) for inner in value]
    return "round 1" if isinstance(value, str) and ROUND.fullmatch(value) else value
