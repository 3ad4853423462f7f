"""docs/methods.md: what each method does, sends and costs."""

from __future__ import annotations

import csv
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocols import flat

from fedshift.common.registry import get, own, title
from fedshift.common.yaml_file import read
from fedshift.experiments.protocols import Space
from fedshift.federation.loop import Federation
from fedshift.planning.costs import floats
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import finish, method, small, spec

MANY = 100  # clients, as the page has it
ROUND = 3  # from 1, as the page has it: what is sent only once comes before
HEAD = """\
| method | paper | average | bytes up | bytes down | state | passes / FedAvg | round / FedAvg |
|---|---|---|---:|---:|---:|---:|---:|"""
ROOT = Path(__file__).parents[2]


def methods() -> str:
    """A table of all methods, then a section for each."""
    with (ROOT / "benchmarks" / "methods.csv").open(newline="") as file:
        measured = {row["method"]: row for row in csv.DictReader(file)}
    rounds: dict[str, Any] = {"federation": {"rounds": ROUND}, "evaluation": {"every": ROUND, "keep": "none"}}
    trained = {
        name: finish(small(spec(method={"name": name}, **rounds), method(name))) for name in own("methods")
    }
    rows = [_row(name, federation, measured.get(name)) for name, federation in trained.items()]
    sections = map(_section, trained)
    return re.sub(r"\n{3,}", "\n\n", "\n".join([HEAD, *rows, "", *sections]))


def _row(name: str, federation: Federation, measured: dict[str, str] | None) -> str:
    words = title("methods", name).rstrip(".").replace("|", "\\|")
    sent = {
        way: sum(
            int(row["value"]) // len(federation.clients)
            for row in federation.records.rows
            if row["metric"] == f"bytes_{way}" and row["round"] == ROUND
        )
        for way in ("up", "down")
    }
    pooled = federation.method.clients == "pooled"  # one client, which is where the images are
    average = federation.spec.method.weights(federation.spec.federation.weights)
    average = "–" if pooled or not sent["up"] else average
    up, down = ("–" if pooled else f"{size:,}" for size in sent.values())
    state = sum(floats(resolve(federation.spec), 2, MANY)) / federation.layout.size
    passes = factor = "not measured"
    if measured:
        images = float(measured["images"])
        passes = f"{images * (float(measured['passes']) + float(measured['outside'])):.2f}"
        factor = f"{images * float(measured['factor']):.2f}"
    return f"| [{name}](#{name}) | {words} | {average} | {up} | {down} | {state:,.0f} | {passes} | {factor} |"


def _section(name: str) -> str:
    doc = sys.modules[get("methods", name).__module__].__doc__ or ""
    rest = inspect.cleandoc(doc).partition("\n\n")[2]
    lines = [f"## {name}\n", f"{title('methods', name)}\n", rest.strip(), ""]
    if params := vars(get("methods", name).Params()):
        defaults = ", ".join(f"`{key}: {value}`" for key, value in params.items())
        lines.append(f"[Options](settings.md#hyper-parameters-methodparams): {defaults}\n")
    return "\n".join([*lines, *_presets(name)]) + "\n"


def _presets(name: str) -> Iterator[str]:
    path = ROOT / "reference" / "presets" / f"{name}.yaml"
    if not path.exists():
        return
    known = read(path)
    named, grid = known.pop("presets", {}), known.pop("grid", {})
    yield f"From `reference/presets/{name}.yaml`:\n"
    for kind, parts in (("protocol", known), ("preset", named)):
        for label, places in parts.items():
            for place, values in places.items():
                yield f"- {kind} `{label}`{'' if place == '*' else f' on `{place}`'}: {flat(values)}"
    for protocol, spaces in grid.items():
        where = "other protocols" if protocol == "*" else f"protocol `{protocol}`"
        listed = (f"`{key}` in {_space(Space.model_validate(space))}" for key, space in spaces.items())
        yield f"- search, {where}: {', '.join(listed)}"
    yield ""


def _space(space: Space) -> str:
    return f"{space}{f' (guess: {space.guess})' if space.guess else ''}"
