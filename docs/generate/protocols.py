"""docs/protocols.md: the settings of all protocols, what papers and released code say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sources import Beside, beside, headline, text

from fedshift.experiments.protocols import Protocol, merge, protocol
from fedshift.experiments.protocols import protocols as every
from fedshift.spec import parse
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]


def protocols() -> str:
    """The resolved settings of all protocols side by side, then one section for each."""
    known = {name: protocol(Workspace(ROOT), name) for name in every(Workspace(ROOT))}
    resolved = {name: _settings(protocol) for name, protocol in known.items()}
    head = [
        "# Protocols\n",
        "Made by `make docs` from `reference/protocols`. An experiment names a protocol and, where it has some, one of its presets",
        "(`preset: released`); any protocol takes any data set and method. Below: resolved settings under `default`, before what is",
        "particular to a data set. Then each protocol: what its presets change, and the resolved settings of its headline rows, the",
        "paper's own method on the data sets of its tables, beside what the paper says, where, and what its released code does. A",
        "value alone holds for all data sets of the row. A setting follows the paper, the code where the paper is silent, and else the",
        "last column says why not; a test holds every row against this.\n",
        f"| setting | {' | '.join(known)} |",
        "|---" * (len(known) + 1) + "|",
    ]
    rows = [_row(key, *(values[key] for values in resolved.values())) for key in resolved["fdse"]]
    return "\n".join(
        [
            *head,
            *rows,
            "",
            *(_protocol(name, protocol, known.get(protocol.base)) for name, protocol in known.items()),
        ]
    )


def _settings(protocol: Protocol) -> dict[str, str]:
    """Setting -> value as text, of a run with data set and method left open."""
    open_choices = {"data": {"dataset": "digits"}, "method": {"name": "fedavg"}}
    run = parse(merge(protocol.settings("", "default", "docs"), open_choices), protocol.title)
    values: dict[str, Any] = {
        f"{block}.{key}": value
        for block in ("data", "partition", "model", "local", "federation", "evaluation")
        for key, value in getattr(run, block)
    }
    prepare = values.pop("data.prepare")
    del values["data.dataset"], values["data.release"], values["data.target"]
    values = {"data.prepare.px": prepare.px, **values}
    values |= {
        "select": protocol.select,
        "seeds": protocol.seeds or "the experiment's",
        "ddof": protocol.ddof,
    }
    return {key: text(value) for key, value in values.items()}


def _row(*entries: str) -> str:
    return f"| {' | '.join(entry.replace('|', '/') for entry in entries)} |"


def _protocol(name: str, protocol: Protocol, base: Protocol | None) -> str:
    lines = [f"## {name}\n", f"{protocol.title}.\n", *(f"- {note}" for note in protocol.notes), ""]
    if base is None:
        lines += [f"On `{dataset}`: {flat(part)}.\n" for dataset, part in protocol.datasets.items()]
        for preset, parts in protocol.presets.items():
            parts_by_dataset = (
                f"{flat(part)}{'' if on == '*' else f' (`{on}`)'}" for on, part in parts.items()
            )
            lines.append(f"Preset `{preset}`: {'; '.join(parts_by_dataset)}.\n")
    else:
        lines.append(f"All else, data sets and presets too, as in [{protocol.base}](#{protocol.base}).\n")
    lines += _headline(name, protocol, base)
    return "\n".join(lines) + "\n"


def _headline(name: str, protocol: Protocol, base: Protocol | None) -> list[str]:
    """The settings of a protocol's headline rows beside what was said; of one that changes another, those that it changes."""
    rows = {dataset: beside(spec, protocol) for dataset, spec in headline(Workspace(ROOT), name).items()}
    if not rows:
        return []
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    if base is not None:
        keys = [key for key in keys if protocol.sources.get(key) != base.sources.get(key)]
    head = f"Headline rows: {', '.join(protocol.headline)} on {', '.join(rows)}.\n"
    table = [
        _row(key, *(_by_dataset(rows, key, field) for field in ("ours", "paper", "at", "code", "why")))
        for key in keys
    ]
    return [head, "| setting | ours | paper | where | released code | why |", "|---" * 6 + "|", *table]


def _by_dataset(rows: dict[str, dict[str, Beside]], key: str, field: str) -> str:
    """What stands in a column: once where it is the same for all data sets, else by data set."""
    values = {dataset: getattr(row[key], field) for dataset, row in rows.items() if key in row}
    if len({*values.values()}) == 1:
        return next(iter(values.values()))
    alike = {value: [name for name, entry in values.items() if entry == value] for value in values.values()}
    return "; ".join(f"{', '.join(names)}: {value}" for value, names in alike.items() if value)


def flat(part: dict[str, Any], above: str = "") -> str:
    """A partial spec as `local.epochs: 5, ...`."""
    inner = [
        flat(value, f"{above}{key}.") if isinstance(value, dict) and value else f"`{above}{key}: {value}`"
        for key, value in part.items()
    ]
    return ", ".join(inner)
