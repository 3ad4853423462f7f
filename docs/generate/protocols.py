"""docs/protocols.md: the settings of all protocols, each compared with the paper and its released code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.common.registry import get
from fedshift.experiments.expand import expand
from fedshift.experiments.protocols import Evidence, Protocol, merge, protocol
from fedshift.experiments.protocols import protocols as every
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import complete
from fedshift.spec.settings import Schedule
from fedshift.storage.workspace import Workspace

WORKSPACE = Workspace(Path(__file__).parents[2])
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
        says why. What stands in brackets behind a value, " (..)", are words about it.
        """
        return self.ours != (self.paper or self.code).partition(" (")[0] and not self.why


def protocols() -> str:
    """The resolved settings in which protocols differ side by side, then one section for each protocol."""
    known = {name: protocol(WORKSPACE, name) for name in every(WORKSPACE)}
    resolved = {name: settings(_open(protocol), protocol) for name, protocol in known.items()}
    keys = dict.fromkeys(key for values in resolved.values() for key in values)
    by_key = {key: [values[key] for values in resolved.values()] for key in keys}
    rows = [_row(f"`{key}`", *values) for key, values in by_key.items() if len({*values}) > 1]
    shared = ", ".join(f"`{key}` {values[0]}" for key, values in by_key.items() if len({*values}) == 1)
    sections = (_protocol(name, protocol, known.get(protocol.base)) for name, protocol in known.items())
    return "\n".join(
        [
            _row("setting", *known),
            "|---" * (len(known) + 1) + "|",
            *rows,
            "",
            f"The same in all: {shared}.\n",
            *sections,
        ]
    )


def headline(name: str) -> dict[str, RunSpec]:
    """The resolved run of the paper's own method on each data set of its tables, the first domain held out
    where one is.
    """
    known, specs = protocol(WORKSPACE, name), {}
    for method, datasets in known.headline.items():
        for dataset in datasets:
            target = get("datasets", dataset).domains[0] if known.holds_out else None
            keys = {
                "name": name, "title": known.title, "protocol": name, "methods": {method: None},
                "axes": {"data.dataset": [dataset], "target": [target], "seed": known.seeds[:1]},
            }  # fmt: skip
            (cell,) = expand(WORKSPACE, Experiment.model_validate(keys))
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
    return {key: _text(value) for key, value in values.items() if key not in OPEN}


def beside(spec: RunSpec, known: Protocol) -> dict[str, Beside]:
    """Every setting of a headline row beside what its paper and code say; settings with nothing on either
    side are left out.
    """

    def of(value: Any) -> str:
        if isinstance(value, dict):
            value = value.get(spec.data.dataset, value.get("*"))
        return "" if value is None else _text(value)

    found = {}
    for key, value in settings(spec, known).items():
        if value != "none" or key in known.sources:
            source = known.sources.get(key, Evidence())
            found[key] = Beside(value, of(source.paper), source.at, of(source.code), of(source.why))
    return found


def flat(part: dict[str, Any], above: str = "") -> str:
    """A partial spec as `local.epochs: 5, ...`."""
    inner = [
        flat(value, f"{above}{key}.") if isinstance(value, dict) and value else f"`{above}{key}: {value}`"
        for key, value in part.items()
    ]
    return ", ".join(inner)


def _open(protocol: Protocol) -> RunSpec:
    """A run of a protocol with data set and method left open."""
    open_choices = {"data": {"dataset": "digits"}, "method": {"name": "fedavg"}}
    return parse(merge(protocol.settings("", "default", "docs"), open_choices), protocol.title)


def _row(*entries: str) -> str:
    return f"| {' | '.join(entry.replace('|', '/') for entry in entries)} |"


def _protocol(name: str, protocol: Protocol, base: Protocol | None) -> str:
    lines = [f"## {name}\n", f"{protocol.title}.\n", *(f"- {note}" for note in protocol.notes), ""]
    if base is None:
        lines += [f"On `{dataset}`: {flat(part)}.\n" for dataset, part in protocol.datasets.items()]
        for preset, parts in protocol.presets.items():
            by_dataset = (f"{flat(part)}{'' if on == '*' else f' (`{on}`)'}" for on, part in parts.items())
            lines.append(f"Preset `{preset}`: {'; '.join(by_dataset)}.\n")
    else:
        lines.append(f"All else, data sets and presets too, as in [{protocol.base}](#{protocol.base}).\n")
    lines += _headline(name, protocol, base)
    return "\n".join(lines) + "\n"


def _headline(name: str, protocol: Protocol, base: Protocol | None) -> list[str]:
    """The settings of a protocol's headline rows beside what was said; of one that changes another, those that it changes."""
    rows = {dataset: beside(spec, protocol) for dataset, spec in headline(name).items()}
    if not rows:
        return []
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    if base is not None:
        keys = [key for key in keys if protocol.sources.get(key) != base.sources.get(key)]
    fields = ("ours", "paper", "at", "code", "why")
    told = {
        key: dict(zip(fields, (_by_dataset(rows, key, field) for field in fields), strict=True))
        for key in keys
    }
    lines = [f"Settings of {', '.join(protocol.headline)} on {', '.join(rows)}.\n"]
    for side, heading in (
        ("paper", "As in the paper"),
        ("code", "As in the released code; the paper gives none"),
    ):
        plain = [key for key, one in told.items() if _is_plain(one, side)]
        if plain:
            lines.append(f"{heading}: " + ", ".join(_told(key, told.pop(key)) for key in plain) + ".\n")
    table = [_row(f"`{key}`", *one.values()) for key, one in told.items()]
    return [*lines, "| setting | here | paper | where | released code | reason |", "|---" * 6 + "|", *table]


def _is_plain(told: dict[str, str], side: str) -> bool:
    """Ours is what this side has; the other one has the same or nothing."""
    other = told["code" if side == "paper" else "paper"]
    return told[side] == told["ours"] and other in ("", told["ours"]) and not told["why"]


def _told(key: str, told: dict[str, str]) -> str:
    return f"`{key}` {told['ours']}" + f" ({told['at']})" * bool(told["at"])


def _by_dataset(rows: dict[str, dict[str, Beside]], key: str, field: str) -> str:
    """What stands in a column: once where it is the same for all data sets, else by data set."""
    values = {dataset: getattr(row[key], field) for dataset, row in rows.items() if key in row}
    if len({*values.values()}) == 1:
        return next(iter(values.values()))
    alike = {value: [name for name, entry in values.items() if entry == value] for value in values.values()}
    return "; ".join(f"{', '.join(names)}: {value}" for value, names in alike.items() if value)


def _text(value: Any) -> str:
    """A value of a setting in few words: a schedule by its kind, a mapping without braces, "none" for null
    and for nothing in it.
    """
    if isinstance(value, Schedule):
        by = {"exponential": f" {value.gamma}", "step": f" {value.gamma} every {value.step}"}
        kind = f"{value.kind}{by.get(value.kind, '')}"
        return kind if value.kind == "constant" else f"{kind}, per {value.unit}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(round(value, 6) if isinstance(value, float) else value)
