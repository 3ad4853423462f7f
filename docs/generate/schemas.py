"""schemas/*.json: what an author may write in each kind of YAML file, for editors; made from the models that
read the files.

JSON Schema draft 7, which editors know best. Names of plug-ins (methods, data sets and so on) are completed,
and others are taken, as another package may bring them; parameters of a name that is known are closed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from settings import FILES, KINDS, parameters

from fedshift.common.registry import get, own
from fedshift.experiments.protocols import protocols
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

WORKSPACE = Workspace(Path(__file__).parents[2])
Schema = dict[str, Any]
OPEN_KEYS = r"^((method|model|partition)\.params|partition\.modify)(\.|$)"
SPEC = {"$ref": "#/$defs/Spec"}
VALUES: Schema = {"type": "array", "minItems": 1}
LABELLED_BY_DATA_SET = {"type": "object", "additionalProperties": SPEC}
ALL = {"const": "all", "description": "every domain of the run's data set; the seeds that the protocol names"}


def schema(kind: str) -> str:
    """The text of schemas/<kind>.json."""
    definition = FILES[kind]()
    if of_runs := {"experiment": _experiment, "protocol": _protocol, "preset": _preset}.get(kind):
        defs = {**definition.pop("$defs"), **_spec()}
        of_runs(definition, defs, definition["properties"])
        definition["$defs"] = defs
    else:
        definition["additionalProperties"] = False
    if kind == "params":
        definition["properties"]["experiments"]["minItems"] = 1
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": f"fedshift: {kind}"}
    return json.dumps(head | _draft7(definition), indent=1, ensure_ascii=False) + "\n"


def settings() -> dict[str, Schema]:
    """Dotted key of a run -> its schema, of blocks and of single settings."""
    whole = RunSpec.model_json_schema()

    def below(block: Schema, prefix: str) -> dict[str, Schema]:
        keys: dict[str, Schema] = {}
        for name, inner in block["properties"].items():
            keys[f"{prefix}{name}"] = inner
            if "$ref" in inner:
                keys |= below(whole["$defs"][inner["$ref"].rpartition("/")[2]], f"{prefix}{name}.")
        return keys

    return below(whole, "")


def _spec() -> dict[str, Schema]:
    """Definitions of a part of a run's specification, in which no key must be there."""
    whole = RunSpec.model_json_schema()
    blocks = {**whole.pop("$defs"), "Spec": whole}
    known = {kind: parameters(kind) for kind in KINDS}
    for block in blocks.values():
        block.pop("required", None)
    _by_name(blocks["Method"], "methods", "name")
    _by_name(blocks["Model"], "models", "name")
    _by_name(blocks["Partition"], "partitions", "scheme")
    _completed(blocks["Data"], "dataset", own("datasets"))
    modifiers = {name: {"$ref": f"#/$defs/modifiers.{name}"} for name in known["modifiers"]}
    blocks["Partition"]["properties"]["modify"]["properties"] = modifiers
    return blocks | {
        f"{kind}.{name}": params for kind, names in known.items() for name, params in names.items()
    }


def _by_name(block: Schema, kind: str, key: str, names: tuple[str, ...] = ()) -> None:
    """Complete the block's name, and hold its `params` to the parameters of that name."""
    names = names or own(kind)
    _completed(block, key, names)
    block["allOf"] = [
        {
            "if": {"properties": {key: {"const": name}}, "required": [key]},
            "then": {"properties": {"params": {"$ref": f"#/$defs/{kind}.{name}"}}},
        }
        for name in names
    ]


def _completed(block: Schema, key: str, names: tuple[str, ...]) -> None:
    words = block["properties"][key]
    words["anyOf"] = [{"enum": [*names]}, {"type": words.pop("type")}]


def _experiment(definition: Schema, defs: Schema, keys: Schema) -> None:
    adapting = [name for name in own("evaluations") if get("evaluations", name).adapts]
    _by_name(defs["Adapt"], "evaluations", "name", tuple(adapting))
    del keys["name"]
    definition["required"].remove("name")
    _completed(definition, "protocol", tuple(protocols(WORKSPACE)))
    keys["spec"] |= SPEC
    described = "A preset of the row's method (reference/presets/<method>.yaml)."
    preset = {"type": "string", "description": described}
    defs["Row"] = {**defs["Spec"], "properties": {"preset": preset, **defs["Spec"]["properties"]}}
    row = {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]}
    keys["methods"] = {
        **{key: keys["methods"][key] for key in ("description", "type", "minProperties")},
        "properties": {name: {"allOf": [row, _unnamed(name)]} for name in own("methods")},
        "additionalProperties": row,
    }
    keys["axes"] = {"type": "object", "description": keys["axes"]["description"], **_axes()}
    defs["Tune"]["properties"]["spec"] |= SPEC
    defs["AxisValues"]["properties"]["key"] |= {"anyOf": [{"enum": [*settings()]}, {"pattern": OPEN_KEYS}]}
    _listed(keys["figures"]["anyOf"][0], "figures")
    _listed(keys["evaluations"], "evaluations")
    _, parametrised = keys["evaluations"]["items"]["anyOf"]
    parametrised["properties"] = {
        name: {"anyOf": [{"$ref": f"#/$defs/evaluations.{name}"}, {"type": "null"}]}
        for name in own("evaluations")
    }


def _searched(block: Schema) -> None:
    """Complete a mapping of dotted keys to what is searched: a list of values, or the long form."""
    block["propertyNames"] = {"anyOf": [{"enum": [*settings()]}, {"pattern": OPEN_KEYS}]}
    block["additionalProperties"] = {"anyOf": [VALUES, {"$ref": "#/$defs/Space"}]}


def _listed(block: Schema, kind: str) -> None:
    """Complete the names of a list of names, or {name: parameters}."""
    named, parametrised = block["items"]["anyOf"]
    named["anyOf"] = [{"enum": [*own(kind)]}, {"type": named.pop("type")}]
    parametrised["propertyNames"] = {"anyOf": named["anyOf"]}


def _unnamed(method: str) -> Schema:
    """A row whose label is its method's name takes that method's parameters."""
    params = {"properties": {"params": {"$ref": f"#/$defs/methods.{method}"}}}
    return {"properties": {"method": {"if": {"not": {"required": ["name"]}}, "then": params}}}


def _axes() -> Schema:
    own_words = {"anyOf": [VALUES, ALL]}
    return {
        "properties": {**dict.fromkeys(settings(), VALUES), "target": own_words, "seed": own_words},
        "patternProperties": {OPEN_KEYS: VALUES},
        "additionalProperties": {"$ref": "#/$defs/AxisValues"},
    }


def _protocol(definition: Schema, defs: Schema, keys: Schema) -> None:
    keys["spec"] |= SPEC
    keys["datasets"] |= LABELLED_BY_DATA_SET
    keys["presets"]["additionalProperties"] = LABELLED_BY_DATA_SET
    keys["headline"]["propertyNames"] = {"enum": [*own("methods")]}
    _searched(keys["grid"])
    words = [*settings(), "select", "seeds", "ddof"]
    keys["sources"]["propertyNames"] = {"anyOf": [{"enum": words}, {"pattern": OPEN_KEYS}]}
    definition["required"].remove("spec")
    definition["anyOf"] = [{"required": ["spec"]}, {"required": ["base"]}]


def _preset(definition: Schema, defs: Schema, keys: Schema) -> None:
    keys["presets"]["additionalProperties"] = LABELLED_BY_DATA_SET
    keys["grid"]["propertyNames"] = {"enum": ["*", *protocols(WORKSPACE)]}
    _searched(keys["grid"]["additionalProperties"])
    by_protocol = {"description": 'Data set, or "*" for all -> which settings differ under this protocol.'}
    keys |= dict.fromkeys(protocols(WORKSPACE), LABELLED_BY_DATA_SET | by_protocol)
    definition["additionalProperties"] = False


def _draft7(value: Any) -> Any:
    """The same in draft 7: a tuple's `prefixItems` are its `items`; without the titles that repeat a key."""
    if isinstance(value, list):
        return [_draft7(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _draft7(inner) for key, inner in value.items() if key != "title" or isinstance(inner, dict)}
    if "prefixItems" in value:
        value["items"] = value.pop("prefixItems")
    if "$ref" in value and len(value) > 1:  # draft 7 reads nothing beside a reference
        value = {"allOf": [{"$ref": value.pop("$ref")}], **value}
    return value
