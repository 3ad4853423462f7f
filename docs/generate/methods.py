"""docs/methods.md: what each method is, takes, sends and costs."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fedshift.federation.ledger import state_dict_bytes
from fedshift.federation.loop import Federation
from fedshift.registry import get, own

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.federation.toys import finish, method, small, spec  # noqa: E402
from tests.methods.files import files_of  # noqa: E402


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
    files = sorted({file for path in files_of(name) for file in _references(path)})
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
