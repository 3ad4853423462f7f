"""Writes the pages that are made from the code: docs/equations.md, methods.md and protocols.md. `make docs`; a test compares them."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from fedshift import experiments
from fedshift.declared import Protocol
from fedshift.equations import Equation
from fedshift.federation.ledger import state_dict_bytes
from fedshift.federation.loop import Federation
from fedshift.registry import get, own
from fedshift.spec import Schedule, parse

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.federation.toys import finish, method, small, spec  # noqa: E402

KINDS = ("methods",)


def equations() -> str:
    """One section for each equation that is marked in the package, by paper and number."""
    parts = [
        "# Equations\n",
        "Made by `make docs` from the functions that carry `@equation`. Each can be called alone, on plain tensors.\n",
    ]
    paper = ""
    for function in sorted(_functions(), key=_order):
        mark: Equation = function.equation  # type: ignore[attr-defined]
        if mark.paper != paper:
            paper = mark.paper
            parts.append(f"## {paper}\n")
        used = ", ".join(f"`{key}: {value}`" for key, value in mark.used_with.items())
        parts.append(
            f"### {mark.number}: `{function.__name__}`\n\n"
            f"```python\nfrom {function.__module__} import {function.__name__}\n\n"
            f"{function.__name__}{inspect.signature(function)}\n```\n\n{inspect.getdoc(function)}\n"
            + (f"\nA run calls it under {used}.\n" if used else "")
        )
    return "\n".join(parts)


def _order(function: Callable[..., Any]) -> tuple[Any, ...]:
    mark: Equation = function.equation  # type: ignore[attr-defined]
    number = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", mark.number)]
    return mark.paper, [str(part).zfill(4) for part in number], function.__name__


def _functions() -> list[Callable[..., Any]]:
    for kind in KINDS:
        for name in own(kind):
            get(kind, name)
    found: dict[tuple[str, str], Callable[..., Any]] = {}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.startswith("fedshift."):
            for value in vars(module).values():
                if hasattr(value, "equation") and inspect.isfunction(value):
                    found[value.__module__, value.__name__] = value
    return list(found.values())


def methods() -> str:
    """One section for each method of the registry, after a table of all."""
    made = {name: finish(small(spec(federation={"rounds": 1}), method(name))) for name in own("methods")}
    measured = _measured()
    head = [
        "# Methods\n",
        "Made by `make docs` from the registry. Bytes are those of one client in one round with `digits_cnn` at two classes, each way,",
        f"counted by the engine (FedAvg: the whole model, {_one_way(made['fedavg'], 'bytes_up'):,}; a state dict has",
        f"{state_dict_bytes(made['fedavg'].build()):,}). Time is one round over FedAvg's with the same network and images,",
        "measured by `python benchmarks/methods.py --csv` (`digits_cnn` at 32 px, 3 clients of 600 images, 2 epochs, bf16, one CPU thread).",
        "Below each method: where the difference to FedAvg's round goes, by hook; `rest` is backward, optimiser and batches.\n",
        "| method | paper | bytes up | bytes down | first pass | round / FedAvg |",
        "|---|---|---:|---:|---|---:|",
    ]
    for name, federation in made.items():
        factor = measured.get(name, {}).get("factor", "")
        passes = "yes" if federation.method.exchanges(0) or _overrides(federation, "begin") else ""
        up, down = (f"{_one_way(federation, way):,}" for way in ("bytes_up", "bytes_down"))
        head.append(f"| [{name}](#{name}) | {_title(name)} | {up} | {down} | {passes} | {factor} |")
    return "\n".join(
        [*head, "", *(_section(name, federation, measured) for name, federation in made.items())]
    )


def _section(name: str, federation: Federation, measured: dict[str, dict[str, str]]) -> str:
    kind = get("methods", name)
    module = sys.modules[kind.__module__]
    title, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n")
    lines = [f"## {name}\n", f"{title}\n", rest.strip(), ""]
    lines += [
        *_options(kind),
        *_presets(name),
        *_travels(federation),
        *_seconds(name, measured),
        *_vectors(name),
    ]
    return "\n".join(lines) + "\n"


def _options(kind: Any) -> Iterator[str]:
    fields = dataclasses.fields(kind.Params)
    if fields:
        parts = [base for base in reversed(kind.Params.__mro__) if dataclasses.is_dataclass(base)]
        yield "Options: " + "\n\n".join(inspect.cleandoc(part.__doc__ or "") for part in parts) + "\n"
        yield "Defaults: " + ", ".join(f"`{field.name}: {_default(field)}`" for field in fields) + "\n"


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _presets(name: str) -> Iterator[str]:
    path = ROOT / "reference" / "presets" / f"{name}.yaml"
    if path.exists():
        known = yaml.safe_load(path.read_text())
        named = ["default", *known.pop("presets", {})]
        grid = known.pop("grid", None)
        yield f"Presets: {', '.join(named)}; values of protocols: {', '.join(known) or 'none'} (`reference/presets/{name}.yaml`).\n"
        if grid:
            yield f"Search grid: `{grid}`\n"


def _travels(federation: Federation) -> Iterator[str]:
    state, chosen = federation.state, federation.method
    classes = {"shared": state.shared, "personal": state.personal, "local": state.local}
    sizes = ", ".join(f"{name} {index.size:,}" for name, index in classes.items() if index.size)
    yield f"Entries of `digits_cnn` by class (floats): {sizes}.\n"
    for slot in chosen.slots:
        travels = ", travels down" if slot.travels else ""
        yield f"- slot `{slot.name}` of the {slot.owner}, {tuple(state.slots[slot.name].shape)}{travels}"
    for message in chosen.messages:
        yield f"- message `{message.name}`, {message.way}"
    yield ""


def _vectors(name: str) -> Iterator[str]:
    files = sorted(
        {file for path in ROOT.glob(f"tests/methods/test_{name}.py") for file in _references(path)}
    )
    if files:
        yield "Reference vectors: " + ", ".join(f"`tests/vectors/{file}`" for file in files) + ".\n"


def _references(path: Path) -> list[str]:
    return re.findall(r'Reference\("([^"]+)"\)', path.read_text())


def _title(name: str) -> str:
    doc = inspect.cleandoc(sys.modules[get("methods", name).__module__].__doc__ or "")
    return doc.partition("\n")[0].rstrip(".").replace("|", "\\|")


def _overrides(federation: Federation, hook: str) -> bool:
    return getattr(type(federation.method), hook).__qualname__.partition(".")[0] != "Method"


def _one_way(federation: Federation, metric: str) -> int:
    rows = federation.records.rows
    total = next(row["value"] for row in rows if row["metric"] == metric)
    return int(total / len(federation.clients))


def _seconds(name: str, measured: dict[str, dict[str, str]]) -> list[str]:
    """A round over FedAvg's, and by how many of FedAvg's rounds each hook differs."""
    if name not in measured or name == "fedavg":
        return []
    own, base = measured[name], measured["fedavg"]
    hooks = [key for key in own if key not in ("method", "seconds", "factor")]
    more = {hook: float(own[hook]) * float(own["factor"]) - float(base[hook]) for hook in hooks}
    told = [f"{hook} {extra:+.2f}" for hook, extra in more.items() if abs(extra) >= 0.02]
    return [f"One round: {own['factor']} of FedAvg's" + (f": {', '.join(told)}." if told else "."), ""]


def _measured() -> dict[str, dict[str, str]]:
    path = ROOT / "benchmarks" / "methods.csv"
    if not path.exists():
        return {}
    with path.open() as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def protocols() -> str:
    """The resolved settings of all protocols side by side, then one section for each."""
    known = {name: experiments.protocol(ROOT, name) for name in experiments.protocols(ROOT)}
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
            *(_protocol(name, one, known.get(one.base), resolved[name]) for name, one in known.items()),
        ]
    )


def _settings(one: Protocol) -> dict[str, str]:
    """Setting -> value as text, of a run with data set and method left open."""
    open_choices = {"data": {"dataset": "digits"}, "method": {"name": "fedavg"}}
    run = parse(experiments.merge(one.settings("", "default", "docs"), open_choices), one.title)
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
        lines += [f"On `{dataset}`: {_flat(part)}.\n" for dataset, part in one.datasets.items()]
        for preset, parts in one.presets.items():
            told = (f"{_flat(part)}{'' if on == '*' else f' (`{on}`)'}" for on, part in parts.items())
            lines.append(f"Preset `{preset}`: {'; '.join(told)}.\n")
    else:
        lines.append(f"All else, data sets and presets too, as in [{one.base}](#{one.base}).\n")
    told_of = {key: said for key, said in one.sources.items() if not base or base.sources.get(key) != said}
    if told_of:
        lines += ["| setting | here | paper | released code |", "|---|---|---|---|"]
        lines += [_row(key, resolved[key], said.paper, said.code) for key, said in told_of.items()]
    return "\n".join(lines) + "\n"


def _flat(part: dict[str, Any], above: str = "") -> str:
    """A partial spec as `local.epochs: 5, ...`."""
    inner = [
        _flat(value, f"{above}{key}.") if isinstance(value, dict) and value else f"`{above}{key}: {value}`"
        for key, value in part.items()
    ]
    return ", ".join(inner)


PAGES = {"equations.md": equations, "methods.md": methods, "protocols.md": protocols}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare instead of writing; exit 1 where a page is out of date"
    )
    check = parser.parse_args().check
    stale = []
    for page, make in PAGES.items():
        path, text = Path(__file__).parent / page, make()
        if check and (not path.exists() or path.read_text() != text):
            stale.append(page)
        elif not check:
            path.write_text(text)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}. Run: make docs")


if __name__ == "__main__":
    main()
