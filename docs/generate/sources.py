"""Sources: the settings of a protocol's headline rows beside what its paper and released code say of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedshift.common.registry import get
from fedshift.experiments.expand import expand
from fedshift.experiments.protocols import Evidence, Protocol, protocol
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec, Schedule
from fedshift.spec.resolve import complete
from fedshift.storage.workspace import Workspace

OPEN = ("data.dataset", "data.target", "evaluation.keep")  # a row's own, or what changes no number


@dataclass(frozen=True)
class Beside:
    """One setting of one row: its value in our run, what paper and code say about it, each as text, "" for
    nothing.
    """

    ours: str
    paper: str
    at: str
    code: str
    why: str

    @property
    def unexplained(self) -> bool:
        """Ours is not what the paper says, or not what the code says where the paper is silent, and nothing
        says why.

        What stands in brackets behind a value, " (..)", are words about it.
        """
        return self.ours != (self.paper or self.code).partition(" (")[0] and not self.why


def headline(workspace: Workspace, name: str) -> dict[str, RunSpec]:
    """The resolved run of the paper's own method on each data set of its tables, the first domain held out
    where one is.
    """
    known, specs = protocol(workspace, name), {}
    for method, datasets in known.headline.items():
        for dataset in datasets:
            target = get("datasets", dataset).domains[0] if known.holds_out else None
            keys = {
                "name": name, "title": known.title, "protocol": name, "methods": {method: None},
                "axes": {"data.dataset": [dataset], "target": [target], "seed": known.seeds[:1]},
            }  # fmt: skip
            (cell,) = expand(workspace, Experiment.model_validate(keys))
            specs[dataset] = cell.spec
    return specs


def settings(spec: RunSpec, known: Protocol) -> dict[str, str]:
    """Every setting of a run and of its protocol's reports as text, the method's parameters at their
    defaults included.
    """
    whole = complete(spec)
    values: dict[str, Any] = {f"data.prepare.{key}": value for key, value in whole.data.prepare}
    for block in ("data", "partition", "model", "local", "federation", "evaluation"):
        values |= {f"{block}.{key}": value for key, value in getattr(whole, block) if key != "prepare"}
    values["model.params"] = spec.model.params
    if whole.partition.split == "official":
        values["partition.fractions"] = "the lists'"
    values |= {"select": known.select, "seeds": known.seeds or "the experiment's", "ddof": known.ddof}
    values |= {f"method.params.{key}": value for key, value in whole.method.params.items()}
    return {key: text(value) for key, value in values.items() if key not in OPEN}


def beside(spec: RunSpec, known: Protocol) -> dict[str, Beside]:
    """Every setting of a headline row beside what its paper and code say; settings with nothing on either
    side are left out.
    """

    def of(value: Any) -> str:
        if isinstance(value, dict):
            value = value.get(spec.data.dataset, value.get("*"))
        return "" if value is None else text(value)

    ours = settings(spec, known)
    sources = {key: known.sources.get(key, Evidence()) for key in ours}
    return {
        key: Beside(
            value, of(sources[key].paper), sources[key].at, of(sources[key].code), of(sources[key].why)
        )
        for key, value in ours.items()
        if value != "none" or key in known.sources
    }


def text(value: Any) -> str:
    """A value of a setting in few words: a schedule by its kind, a mapping without braces, "none" for null
    and for nothing in it.
    """
    if isinstance(value, Schedule):
        by = {"exponential": f" {value.gamma}", "step": f" {value.gamma} every {value.step}"}
        kind = f"{value.kind}{by.get(value.kind, '')}"
        return kind if value.kind == "constant" else f"{kind}, per {value.unit}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(round(value, 6) if isinstance(value, float) else value)
