"""docs/settings.md: all keys of all configuration files, made from the models that read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from parameters import parameters
from pydantic import TypeAdapter

from fedshift.experiments.protocols import Preset, Protocol
from fedshift.experiments.schema import Experiment
from fedshift.planning.cluster import Cluster
from fedshift.planning.request import Request
from fedshift.spec import RunSpec

ROOT = Path(__file__).parents[2]
Schema = dict[str, Any]
OPENING = """# Settings

Made by `make docs` from the models that read the files: a key that is not below is refused, with the nearest
that is. The same models make `schemas/*.json`: an editor with a YAML language server completes and checks a file
whose first line names its schema, as every file here does. The examples below are read by a test.
"""
RUN = """## A run

What is below `spec` in experiments and protocols, below a row of `methods`, and in presets is a part of a run's
specification: any of these keys, nested (`local: {lr: 0.1}`). In `axes`, `grid` and `sources` a key is written
with dots (`local.lr`). Parts are merged in the order that [add-an-experiment.md](add-an-experiment.md) tells; what
no part sets has its default. A key without a default must be set by one of them.
"""
EXAMPLES = {
    "experiment": (
        "experiments/proximal.yaml",
        """title: "FedProx's weight of the proximal term on digits"
protocol: small_batches
methods:
  fedavg:
  fedprox:
  fedprox-tuned: {preset: tuned, method: {name: fedprox}}
axes:
  target: all                                         # every domain in turn
  rate: {key: local.lr, values: [0.05, 0.1]}          # a name of your own
  local.epochs: [1, 2]                                # or the dotted key alone
  seed: [0, 1]
only: {fedprox: {local.epochs: [2]}}
tables:
  rates: {title: "Accuracy (%) by learning rate", columns: [rate], metrics: [id, ood]}
""",
    ),
    "protocol": (
        "reference/protocols/small_batches.yaml",
        """title: "Digits with small batches and momentum"
base: digits
spec: {local: {batch: 8, momentum: 0.5, schedule: {kind: step, step: 4, gamma: 0.5}}}
seeds: [0, 1, 2]
select: best_first
""",
    ),
    "preset": (
        "reference/presets/fedprox.yaml",
        """digits:
  "*": {method: {params: {mu: 0.1}}}
presets:
  tuned:
    "*": {local: {weight_decay: 0.0001}}
    digits: {method: {params: {mu: 0.001}}}
grid:
  digits: {method.params.mu: [0.001, 0.01, 0.1]}
  "*": {method.params.mu: {low: 0.0001, high: 1.0, guess: "no paper says"}}
""",
    ),
    "params": ("params.yaml", "experiments: [proximal]\npack: 5\ndevice: cpu\n"),
    "cluster": ("slurm/cluster.yaml", "slurm_partition: gpu\nslurm_account: vision\n"),
}
FILES: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "experiment": ("## An experiment: `experiments/**/*.yaml`", Experiment.model_json_schema),
    "protocol": ("## A protocol: `reference/protocols/*.yaml`", Protocol.model_json_schema),
    "preset": ("## A preset: `reference/presets/<method>.yaml`", Preset.model_json_schema),
    "params": ("## `params.yaml`", TypeAdapter(Request).json_schema),
    "cluster": ("## `slurm/cluster.yaml`", TypeAdapter(Cluster).json_schema),
}
PROTOCOL = (
    "| `<protocol>.<data set>` | part of a run | `{}` | "
    'What differs under this protocol on this data set, or on all (`"*"`). |'
)
TYPES = {
    "object": "mapping",
    "array": "list",
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
}
OWNERS = (
    ("methods", "Hyper-parameters, `method.params`"),
    ("models", "Parameters of networks, `model.params`"),
    ("partitions", "Parameters of schemes, `partition.params`"),
    ("modifiers", "Parameters of modifiers, `partition.modify.<name>`"),
    ("evaluations", "Parameters of evaluations: `evaluations`, and `adapt.<row>.params` of those that adapt"),
)


def settings() -> str:
    """The page: a run's keys, the parameters of what it names, then one section for each kind of file."""
    parts = [OPENING, RUN, *_table(RunSpec.model_json_schema())]
    for kind, title in OWNERS:
        parts += [f"### {title}\n", *_parameters(parameters(kind))]
    for kind, (title, make) in FILES.items():
        parts += [f"{title}\n", *_section(kind, make())]
    return "\n".join(parts)


def _section(kind: str, schema: Schema) -> Iterator[str]:
    path, text = EXAMPLES[kind]
    up = "../" * path.count("/")
    yield f"{' '.join(schema['description'].split())}\n"
    yield f"`{path}`:\n"
    yield f"```yaml\n# yaml-language-server: $schema={up}schemas/{kind}.json\n{text}```\n"
    schema.get("properties", {}).pop("name", None)
    yield from _table(schema, [PROTOCOL] if kind == "preset" else [])


def _table(schema: Schema, first: Iterable[str] = ()) -> Iterator[str]:
    yield "| key | type or values | default | meaning |"
    yield "|---|---|---|---|"
    yield from first
    yield from _rows(schema, schema.get("$defs", {}), "")
    yield ""


def _rows(block: Schema, defs: dict[str, Schema], prefix: str) -> Iterator[str]:
    """One line for each key of a block, those of the blocks inside below it."""
    for name, inner in block["properties"].items():
        key = f"{prefix}{name}"
        of_names = inner.get("additionalProperties", {})
        reference = _reference(inner) or (_reference(of_names) if isinstance(of_names, dict) else "")
        if not reference or name == "axes":
            yield _row(key, inner, name in block.get("required", ()))
        if reference:
            yield from _rows(defs[reference], defs, f"{key}." if _reference(inner) else f"{key}.<name>.")


def _reference(schema: Schema) -> str:
    """The block that a key holds, "" for none."""
    for option in (schema, *schema.get("anyOf", ())):
        if "$ref" in option:
            return str(option["$ref"]).rpartition("/")[2]
    return ""


def _row(key: str, schema: Schema, required: bool) -> str:
    has = "default" in schema and not required
    default = f"`{json.dumps(schema['default'], ensure_ascii=False)}`" if has else ""
    cells = (f"`{key}`", _type(schema), default, schema.get("description", ""))
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _type(schema: Schema) -> str:
    """A JSON schema in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    if "$ref" in schema:
        return "mapping"
    kind = TYPES.get(schema.get("type", ""), "any")
    if "prefixItems" in schema:
        return f"{kind} of {len(schema['prefixItems'])} {_type(schema['prefixItems'][0])}s"
    if kind == "list" and schema.get("items"):
        return f"list of {_type(schema['items'])}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = ", ".join(f"{sign} {schema[word]}" for word, sign in signs.items() if word in schema)
    return f"{kind} {limits}".rstrip()


def _parameters(known: dict[str, Schema]) -> Iterator[str]:
    yield "| of | parameter | type or values | default | meaning |"
    yield "|---|---|---|---|---|"
    for name, schema in known.items():
        for key, inner in schema.get("properties", {}).items():
            yield f"| `{name}` {_row(key, inner, key in schema.get('required', ()))}"
    if without := [f"`{name}`" for name, schema in known.items() if not schema.get("properties")]:
        yield f"\nWithout parameters: {', '.join(without)}."
    yield ""
