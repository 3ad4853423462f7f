"""Configuration files: schemas accept what the files hold and refuse mistakes, examples run."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from fedshift.common.errors import FedshiftError
from fedshift.common.yaml_file import read
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.protocols import preset, protocol
from fedshift.planning.cluster import Cluster
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import done, fedshift

FILES = {
    "experiment": sorted((ROOT / "experiments").rglob("*.yaml")),
    "protocol": sorted((ROOT / "reference" / "protocols").glob("*.yaml")),
    "preset": sorted((ROOT / "reference" / "presets").glob("*.yaml")),
    "params": [ROOT / "params.yaml"],
    "cluster": [ROOT / "slurm" / "cluster.example.yaml"],
}
LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
EXAMPLE = re.compile(r"`([\w/]+\.yaml)`:\n\n```yaml\n(.*?)```", re.DOTALL)
EXAMPLES = dict(EXAMPLE.findall((ROOT / "docs" / "settings.md").read_text()))


def mistakes(kind: str, value: Any) -> list[str]:
    """What the schema of a kind says against a file's keys."""
    schema = json.loads((ROOT / "schemas" / f"{kind}.json").read_text())
    return [error.message for error in Draft7Validator(schema).iter_errors(value)]


def with_value(keys: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of nested mappings with one value set."""
    changed = copy.deepcopy(keys)
    inner = changed
    for key in path[:-1]:
        if not isinstance(inner.get(key), dict):
            inner[key] = {}
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("kind", FILES)
def test_every_file_of_ours_names_its_schema_which_accepts_it(kind: str) -> None:
    assert FILES[kind]
    for path in FILES[kind]:
        line = LINE.match(path.read_text())
        assert line, f"{path}: its first line is no `# yaml-language-server: $schema=..`"
        assert (path.parent / line[1]).resolve() == ROOT / "schemas" / f"{kind}.json", path
        assert mistakes(kind, read(path)) == [], path


@pytest.mark.parametrize(
    ("kind", "path", "values"),
    [
        ("experiment", ("titel",), ["x"]),
        ("experiment", ("name",), ["proximal"]),
        ("experiment", ("spec", "local", "lrr"), [0.1]),
        ("experiment", ("spec", "local", "schedule", "kind"), ["cosinus"]),
        ("experiment", ("methods", "fedprox", "method"), [{"params": {"lam": 1}}, {"params": {"mu": "much"}}]),
        ("experiment", ("axes", "local.lrr"), [[0.1]]),
        ("experiment", ("axes", "rate"), [[0.1], {"key": "local.lrr", "values": [0.1]}, {"key": "local.lr"}]),
        ("experiment", ("claims", "HF-C04.1"), [{"metric": "id", "were": {}}]),
        ("protocol", ("select",), ["best"]),
        ("protocol", ("sources", "local.lrr"), [{"paper": 1}]),
        ("preset", ("digist",), [{"*": {}}]),
        ("preset", ("grid", "digist"), [{"local.lr": [1]}]),
        ("experiment", ("tune",), [{"seeds": [1]}, {"budget": 2, "seeds": []}, {"budget": 2, "seeds": [1], "x": 1}]),
        ("params", ("packs",), [1]),
        ("params", ("device",), ["tpu"]),
        ("cluster", ("slurm_partion",), ["gpu"]),
    ],
)  # fmt: skip
def test_schemas_refuse_a_mistake(kind: str, path: tuple[Any, ...], values: list[Any]) -> None:
    (text,) = (text for text in EXAMPLES.values() if f"schemas/{kind}.json" in text)
    example = yaml.safe_load(text)
    assert mistakes(kind, example) == []
    for value in values:
        assert mistakes(kind, with_value(example, path, value)), f"{path}: {value!r} passes"


def test_the_examples_of_the_page_run(project: Path) -> None:
    assert len(EXAMPLES) == len(FILES)
    for path, text in EXAMPLES.items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(text)
    done(fedshift(project, "plan"))  # what params.yaml names
    cells = expand(Workspace(project), load(Workspace(project), "proximal"))
    assert len(cells) == 4 * 2 * 2 * (2 + 1 + 2)
    tuned = next(cell.spec for cell in cells if cell.label == "fedprox-tuned")
    assert tuned.method.params == {"mu": 0.001}
    assert (tuned.local.weight_decay, tuned.local.momentum) == (0.0001, 0.5)
    assert Cluster.read(project).resources == {"slurm_partition": "gpu", "slurm_account": "vision"}
    assert protocol(Workspace(project), "small_batches").seeds == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digist: {}", "presets/fedprox.yaml: unknown protocol 'digist'\n.*'digits'"),
        ("preset: {}", "unknown protocol 'preset'\n.*'presets'"),
        ("digits: {digist: {}}", "fedprox.yaml: digits: unknown data set 'digist'\n.*'digits'"),
        ("presets: {tuned: {pasc: {}}}", "fedprox.yaml: tuned: unknown data set 'pasc'\n.*'pacs'"),
        ("grid: [1]", "'grid'"),
    ],
)
def test_a_mistake_in_a_preset_is_named(project: Path, text: str, message: str) -> None:
    (project / "reference" / "presets" / "fedprox.yaml").write_text(text)
    with pytest.raises(FedshiftError, match=message):
        preset(Workspace(project), "fedprox")
