"""docs/protocols.md: the settings of all protocols, what papers and released code say of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from fedshift.experiments import load
from fedshift.experiments.declared import Protocol, merge
from fedshift.spec import Schedule, parse

ROOT = Path(__file__).parents[2]


def protocols() -> str:
    """The resolved settings of all protocols side by side, then one section for each."""
    known = {name: load.protocol(ROOT, name) for name in load.protocols(ROOT)}
    resolved = {name: _settings(one) for name, one in known.items()}
    head = [
        "# Protocols\n",
        "Made by `make docs` from `reference/protocols`. An experiment names a protocol and, where it has some, one of its presets",
        "(`preset: released`); any protocol takes any data set and method. Below: resolved settings under `default`, before what is",
        "particular to a data set. What paper and released code say follows for each, where they say something.\n",
        f"| setting | {' | '.join(known)} |",
        "|---" * (len(known) + 1) + "|",
    ]
    rows = [_row(key, *(one[key] for one in resolved.values())) for key in resolved["fdse"]]
    return "\n".join(
        [
            *head,
            *rows,
            "",
            *_first_rounds(),
            *(_protocol(name, one, known.get(one.base), resolved[name]) for name, one in known.items()),
        ]
    )


def _first_rounds() -> list[str]:
    """The table of benchmarks/protocols.csv."""
    with (ROOT / "benchmarks" / "protocols.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        "## First rounds on real images\n",
        "FedAvg, seed 0, from scratch, each protocol's own schedule: `python benchmarks/protocols.py --csv`. Fewer pixels where a ResNet at",
        "224 px would take a CPU many minutes a round.\n",
        "| protocol | images | network | clients a round | samples a client trains on | images by round | loss by round | accuracy in, out of domain |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {one['protocol']} | {one['images']} | {one['network']} | {one['clients']} | {one['held']} | {one['trained']} "
            f"| {one['loss']} | {one['in']}, {one['out'] or '-'} |"
            for one in rows
        ),
        "",
    ]


def _settings(one: Protocol) -> dict[str, str]:
    """Setting -> value as text, of a run with data set and method left open."""
    open_choices = {"data": {"dataset": "digits"}, "method": {"name": "fedavg"}}
    run = parse(merge(one.settings("", "default", "docs"), open_choices), one.title)
    values: dict[str, Any] = {
        f"{block}.{key}": value
        for block in ("data", "partition", "model", "local", "federation", "evaluation")
        for key, value in getattr(run, block)
    }
    prepare = values.pop("data.prepare")
    del values["data.dataset"], values["data.release"], values["data.target"]
    values = {"data.prepare.px": prepare.px, **values}
    values |= {"select": one.select, "seeds": one.seeds or "the experiment's", "ddof": one.ddof}
    return {key: _text(value) for key, value in values.items()}


def _text(value: Any) -> str:
    if isinstance(value, Schedule):
        by = {
            "constant": "",
            "cosine": "",
            "exponential": f" {value.gamma}",
            "step": f" {value.gamma} every {value.step}",
        }
        return f"{value.kind}{by[value.kind]}" + ("" if value.kind == "constant" else f", per {value.unit}")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(one)}" for key, one in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _row(*entries: str) -> str:
    return f"| {' | '.join(entry.replace('|', '/') for entry in entries)} |"


def _protocol(name: str, one: Protocol, base: Protocol | None, resolved: dict[str, str]) -> str:
    lines = [f"## {name}\n", f"{one.title}.\n", *(f"- {note}" for note in one.notes), ""]
    if base is None:
        lines += [f"On `{dataset}`: {flat(part)}.\n" for dataset, part in one.datasets.items()]
        for preset, parts in one.presets.items():
            told = (f"{flat(part)}{'' if on == '*' else f' (`{on}`)'}" for on, part in parts.items())
            lines.append(f"Preset `{preset}`: {'; '.join(told)}.\n")
    else:
        lines.append(f"All else, data sets and presets too, as in [{one.base}](#{one.base}).\n")
    told_of = {key: said for key, said in one.sources.items() if not base or base.sources.get(key) != said}
    if told_of:
        lines += ["| setting | here | paper | released code |", "|---|---|---|---|"]
        lines += [_row(key, resolved[key], said.paper, said.code) for key, said in told_of.items()]
    return "\n".join(lines) + "\n"


def flat(part: dict[str, Any], above: str = "") -> str:
    """A partial spec as `local.epochs: 5, ...`."""
    inner = [
        flat(value, f"{above}{key}.") if isinstance(value, dict) and value else f"`{above}{key}: {value}`"
        for key, value in part.items()
    ]
    return ", ".join(inner)
