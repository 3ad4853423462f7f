"""What a user can get wrong in words: every mistake is named with its place, and with what to do next."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.experiments.protocols import merge
from fedshift.planning import planfile
from tests.verbs import done, fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {"federation": {"rounds": 1}},
    "methods": {"fedavg": None},
    "axes": {"target": ["plain"], "seed": [0]},
}
MISTAKES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"spec": {"local": {"epocs": 2}}}, ("experiments/tiny.yaml: fedavg", "unknown key 'local.epocs'", "Did you mean 'epochs'?")),
    ({"methods": {"fedprx": None}}, ("method.name", "unknown method 'fedprx'", "Did you mean 'fedprox'?")),
    ({"spec": {"model": {"name": "alexnet"}}}, ("model.name", "unknown model 'alexnet'", "Did you mean 'alexnet_bn'?")),
    ({"protocol": "digit"}, ("protocols", "unknown protocol 'digit'", "Did you mean 'digits'?")),
    ({"axes": {"target": ["plane"]}}, ("data.target", "unknown domain of digits 'plane'", "Did you mean 'plain'?")),
    ({"methods": {"stablefdg": {"method": {"params": {"d": 0}}}}}, ("stablefdg: method.params: 'd' of stablefdg: Input should be greater than or equal to 1", "Got 0")),
    ({"spec": {"local": {"optimizer": "adm"}}}, ("'local.optimizer' cannot be 'adm'", "Did you mean 'adam'?")),
    ({"methods": {"fedprox": {"method": {"params": {"mue": 1}}}}}, ("unknown key 'mue' of fedprox", "Did you mean 'mu'?")),
    ({"spec": {"partition": {"scheme": "domains_per_client", "params": {"d": 4}}}}, ("d", "4", "3")),
    ({"spec": {"local": {"batch": 1}}}, ("local.batch", "batch of 1", "digits_cnn", "Use a batch of 2 or more")),
    ({"spec": {"partition": {"fractions": [0.9, 0.2, 0.1]}}}, ("partition", "must sum to 1")),
    ({"spec": {"local": {"optimizer": "adam", "momentum": 0.9}}}, ("momentum belongs to optimizer 'sgd'",)),
    ({"axes": {"seed": [True]}}, ("'seed'", "must be a number, not true or false")),
    ({"spec": {"federation": {"rounds": 2**40}}}, ("'federation.rounds'", "less than or equal to 1000000")),
    ({"tables": {"main": {"columns": ["target"], "metrics": []}}}, ("tables.main.metrics", "at least 1")),
    ({"methods": {"../../x": {"method": {"name": "fedavg"}}}}, ("'methods'", "'../../x' is not a valid name")),
    ({"name": "../../other"}, ("'name' is not a key of the file", "Rename the file")),
    ({"methods": {"fedprox": {"method": {"params": {"mu": -1}}}}}, ("method.params: 'mu' of fedprox must be from 0 to 1,000,000", "Got -1")),
    ({"spec": {"partition": {"scheme": "dirichlet", "params": {"clients": 40_000}}}}, ("partition.params: 40,000 clients", "32,767 or less")),
    ({"figures": [{"ranks": {"against": "fedavgg"}}]}, ("against", "fedavg")),
    ({"figures": [{"curves": {"rows": "*-adapted"}}]}, ("curves.rows", "unknown trained row")),
    ({"tables": {"claims": {}}}, ("'claims' is the name of another file",)),
    ({"hypotheses": {"h": {"text": "x", "compare": "fedavg > fedavg", "metric": "loss.ood"}}}, ("hypotheses.h.metric", "lower is better")),
    ({"hypotheses": {"h": {"text": "x", "compare": "fedavg ~ fedavg", "metric": "loss.odd", "margin": {"digits": 1}}}}, ("hypotheses.h.metric",)),
    ({"hypotheses": {"h": {"text": "x", "compare": "fedavg > fedavg", "metric": "acuracy.ood"}}}, ("hypotheses.h.metric", "Did you mean 'accuracy'?")),
    ({"evaluations": ["filters"], "figures": [{"filters": {"row": "fedvag"}}]}, ("filters.row", "Did you mean 'fedavg'?")),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "parts"), MISTAKES, ids=[str(mistake) for mistake, _ in MISTAKES])
def test_mistakes_in_an_experiment(project: Path, mistake: dict[str, Any], parts: tuple[str, ...]) -> None:
    whole = mistake.get("methods")
    experiment = merge(TINY, mistake) | ({"methods": whole} if whole else {})
    (project / "experiments" / "tiny.yaml").write_text(yaml.safe_dump(experiment))
    refused(fedshift(project, "plan", "tiny"), *parts)


def test_an_experiment_that_is_not_yaml(project: Path) -> None:
    (project / "experiments" / "tiny.yaml").write_text("title: [unclosed\n")
    refused(fedshift(project, "plan", "tiny"), "tiny.yaml", "is not YAML", "line")


def test_an_experiment_nested_too_deeply(project: Path) -> None:
    (project / "experiments" / "tiny.yaml").write_text("title: " + "[" * 3000 + "]" * 3000 + "\n")
    refused(fedshift(project, "plan", "tiny"), "tiny.yaml", "cannot be read", "nested too deeply")


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("params.yaml", "hours: 24", "hours: 24:00"),
        ("params.yaml", "pack: 10", "pack: 0x10"),
        ("params.yaml", "minutes: 3", "minutes: 1:30"),
        ("experiments/demo.yaml", "seed: [0", "seed: [010"),
        ("reference/protocols/digits.yaml", "rounds: ", "rounds: 0"),
        ("reference/presets/fedprox.yaml", "mu: 0.01", "mu: 1_0"),
    ],
)
def test_a_value_that_yaml_reads_in_two_ways(project: Path, file: str, before: str, after: str) -> None:
    text = (project / file).read_text()
    assert before in text
    (project / file).write_text(text.replace(before, after, 1))
    line = text[: text.index(before)].count("\n") + 1
    refused(fedshift(project, "plan", "demo", "demo_all"), f"{file}:{line}", "has several meanings")


@pytest.mark.parametrize("hours", [0, 8761, 10**9])
def test_hours_that_no_cluster_gives(project: Path, hours: int) -> None:
    text = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(text.replace("hours: 24", f"hours: {hours}"))
    refused(fedshift(project, "plan", "demo"), f"'hours' cannot be {hours}", "at most 8,760")


def test_a_setting_that_yaml_reads_in_two_ways(project: Path) -> None:
    for setting in ("local.lr=010", "local.lr=1:30", "federation.rounds=1_0"):
        told = fedshift(project, "train", "fedavg", "--data", "digits", "--set", setting)
        refused(told, setting, "several meanings")


CLASH = "would lie inside each other"


@pytest.mark.parametrize(
    ("names", "asked", "words"),
    [
        (("nest", "nest/inner"), "nest", CLASH),
        (("a/b", "a/b/c/d"), "a/b/c/d", CLASH),
        (("all",), "all", "'all' names other results"),
        (("mine.tuning",), "mine.tuning", "'.tuning' names other results"),
        (("mine{x}",), "mine{x}", "cannot name an experiment"),
    ],
)
def test_names_whose_results_would_be_taken_for_others(
    project: Path, names: tuple[str, ...], asked: str, words: str
) -> None:
    for name in names:
        path = project / "experiments" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(TINY))
    refused(fedshift(project, "plan", asked), f"experiments/{asked}.yaml", words, "Rename")


@pytest.mark.parametrize("name", ["v1.2", "two words", "данные", "a-b/c_d"])
def test_names_that_may_be(project: Path, name: str) -> None:
    path = project / "experiments" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(TINY))
    assert len(done(fedshift(project, "plan", name, "--print", "runs")).split()) == 1


def test_a_verb_that_is_not_there(project: Path) -> None:
    refused(fedshift(project, "prepar"), "No such command 'prepar'", "Did you mean 'prepare'?")


def test_a_plan_of_other_versions(project: Path) -> None:
    (project / "experiments" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    path = project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip()
    pack = planfile.runs(path)[0].pack
    known = planfile.load(path)
    planfile.write(path, known._replace(runs=[run._replace(digest="0" * 16) for run in known.runs]))
    told = fedshift(project, "train-pack", "--plan", str(path), "--pack", pack)
    refused(told, "the code has changed since this was planned", "snakemake")
