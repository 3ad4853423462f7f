"""What an experiment's file names twice is there both times: said by `fedshift plan`, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.cli._settings import parsed
from fedshift.experiments.claim import Claim, Compared
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import done, fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "methods": {"fedavg": None, "fedprox": None, "hfedf": None},
    "axes": {"target": ["plain", "ink"], "seed": [0, 1]},
}


def plan(root: Path, **keys: Any) -> Any:
    (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **keys}, sort_keys=False))
    return fedshift(root, "plan", "tiny")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"only": {"fedprox": {"sed": [0]}}}, ("only.fedprox", "unknown axis 'sed'", "Did you mean 'seed'?")),
        (
            {"only": {"fedprox": {"seed": [7]}}},
            ("only.fedprox.seed", "unknown value of this axis '7'", "0, 1"),
        ),
        ({"only": {"fedprox": {"seed": []}}}, ("only.fedprox.seed", "has no value")),
        ({"tables": {"t": {"columns": ["sed"]}}}, ("tables.t.columns", "unknown axis 'sed'", "'seed'")),
        ({"tables": {"t": {"columns": ["seed", "seed"]}}}, ("tables.t.columns", "one thing twice")),
        ({"tables": {"t": {"metrics": ["id", "id"]}}}, ("tables.t.metrics", "one thing twice")),
        (
            {"tables": {"t": {"select": ["held_out"]}}},
            ("tables.t.select", "'held_out' has no", "hold out two"),
        ),
        (
            {"tables": {"t": {"select": ["oracle"]}}, "axes": {"target": [None, "plain"]}},
            ("tables.t.select", "'oracle' has no", "in every run"),
        ),
        (
            {"figures": [{"curves": {"highlight": ["fedagv"]}}]},
            ("figures.curves.highlight", "row of this experiment 'fedagv'", "'fedavg'"),
        ),
        ({"published": {"fedagv": "x"}}, ("published", "row of this experiment 'fedagv'", "'fedavg'")),
        ({"published": {"*": "x/{targt}"}}, ("published.*", "unknown field 'targt'", "'target'")),
        ({"published": {"*": "x/{target"}}, ("published.*", "brace")),
        (
            {"published": {"*": "pacs/cnn23/lodo/d1/{method}/default/{target}"}},
            (
                "published.*",
                "meets no printed number",
                "Its nearest key is 'pacs/cnn32/lodo/d1/fedavg/default/",
            ),
        ),
        ({"paper": "hFedG"}, ("paper", "unknown paper of reference/published.csv 'hFedG'", "'hFedF'")),
        (
            {"paper": "hFedF", "tables": {"t": {"printed": ["2", "99"]}}},
            ("tables.t.printed", "unknown table of hFedF '99'"),
        ),
        ({"tables": {"t": {"printed": ["2"]}}}, ("tables.t.printed", "is of no paper", "`paper:`")),
        ({"expect": {"ood": 2, "exempt": ["fedproxx"]}}, ("expect.exempt", "'fedproxx'", "'fedprox'")),
        ({"claims": {"HF-C04.111": {"metric": "ood"}}}, ("claims.HF-C04.111", "unknown claim", "'HF-C04.1")),
        (
            {"claims": {"HF-C04.1": {"metric": "ood", "rows": {"FedAvg": "fedagv"}}}},
            ("claims.HF-C04.1.rows.FedAvg", "row of this experiment 'fedagv'", "'fedavg'"),
        ),
        (
            {"claims": {"HF-C04.1": {"metric": "ood", "rows": {"FedAgv": "fedavg"}}}},
            ("claims.HF-C04.1.rows", "unknown method of this claim 'FedAgv'", "'FedAvg'"),
        ),
        (
            {"claims": {"HF-C04.1": {"metric": "ood"}}, "methods": {"hfedf": None}},
            ("claims.HF-C04.1", "speaks of 'FedAvg'", "rows: {'FedAvg': <row>}"),
        ),
        (
            {"claims": {"HF-C04.1": {"metric": "ood", "where": {"targt": "ink"}}}},
            ("claims.HF-C04.1.where", "unknown axis 'targt'", "'target'"),
        ),
        (
            {"claims": {"HF-C04.1": {"metric": "ood", "where": {"target": "inc"}}}},
            ("claims.HF-C04.1.where.target", "unknown value of this axis 'inc'", "'ink'"),
        ),
        (
            {
                "claims": {
                    "HF-C04.1": {
                        "metric": "ood",
                        "rows": {"FedAvg": {"row": "fedavg", "range": ["fedprox"], "peak": ["fedprox"]}},
                    }
                }
            },
            ("claims.HF-C04.1.rows.FedAvg", "both `range` and `peak`"),
        ),
        ({"methods": {"mine": None}}, ("mine: method.name", "'moon'", "mine: {method: {name: fedavg}}")),
        ({"methods": {"fedprox": {"mu": 0.1}}}, ("fedprox", "key 'mu'", "Did you mean 'method.params.mu'?")),
        ({"axes": {"target": [2020, 2021]}}, ("'data.target'", "(got 2020)", "Write it in quotes.")),
        ({"spec": {"seed": 5}}, ("spec.seed", "the axis 'seed' varies it", "Leave one of the two out.")),
        ({"spec": {"data": {"target": "ink"}}}, ("spec.data.target", "the axis 'target' varies it")),
        ({"methods": {}}, ("'methods'", "at least 1")),
        ({"methods": {"fedprox": {"method": "fedavg"}}}, ("fedprox", "'method'", "fedavg")),
        ({"spec": {"data": "pacs"}, "axes": {"seed": [0]}}, ("fedavg", "'data'", "pacs")),
    ],
)
def test_a_name_that_is_nowhere_is_refused(
    project: Path, keys: dict[str, Any], said: tuple[str, ...]
) -> None:
    refused(plan(project, **keys), "experiments/tiny.yaml", *said)


def test_names_that_are_there_pass(project: Path) -> None:
    keys = {
        "only": {"fedprox": {"seed": [1], "target": ["ink"]}},
        "tables": {"t": {"columns": ["target"], "select": ["last", "oracle"]}},
        "published": {
            "*": "pacs/cnn32/lodo/d1/{method}/default/{target}",  # of digits' domains none is printed, their average is
            "fedprox": "pacs/cnn32/lodo/d1/fedprox/default/mean",
        },
        "claims": {"HF-C04.1": {"metric": "ood", "where": {"target": "ink"}, "rows": {"FedAvg": "fedprox"}}},
        "expect": {"ood": 2, "exempt": ["fedprox"]},
    }
    done(plan(project, **keys))
    cells = expand(Workspace(project), load(Workspace(project), "tiny"))
    assert [cell.label for cell in cells].count("fedavg") == 4
    assert [cell.axes for cell in cells if cell.label == "fedprox"] == [{"target": "ink", "seed": 1}]


def test_a_number_with_an_exponent_is_a_number(project: Path) -> None:
    """1e-2 is one in YAML 1.2 and text in YAML 1.1, whose numbers have a point."""
    text = yaml.safe_dump(TINY) + "spec: {local: {lr: 1e-2, weight_decay: 5E-4, clip: 1.5e+1}}\n"
    (project / "experiments" / "tiny.yaml").write_text(text)
    spec = expand(Workspace(project), load(Workspace(project), "tiny"))[0].spec
    assert (spec.local.lr, spec.local.weight_decay, spec.local.clip) == (0.01, 0.0005, 15.0)
    assert parsed(("local.lr=1e-2", "seeds=12", "name=e12"), "--set") == {
        "local.lr": 0.01, "seeds": 12, "name": "e12"
    }  # fmt: skip


def test_a_claim_says_its_rows() -> None:
    experiment = load(Workspace(ROOT), "fdse/table1_office")
    said = paper_claim(Workspace(ROOT), "FDSE-C01.3", "here")
    claim = experiment.claims["FDSE-C01.3"]
    sides = compared(said, experiment, claim, "here")
    rows = [side.row for side in (*sides.left, *sides.right) if isinstance(side, Compared)]
    assert rows[0] == "fdse-released"  # whose number the paper's is
    assert set(rows) == set(experiment.methods) - {"fdse"}  # max over all the others
    assert compared({**said, "relation": "~"}, experiment, claim, "here") == sides
    (by_name,) = compared(said, experiment, Claim(metric="all"), "here").left
    assert isinstance(by_name, Compared) and by_name.row == "fdse"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("experiments: [demo", ("is not YAML", "from line 1 on", "Fix that line")),
        ("experiments: [demo]\nexperiments: [tiny]", ("params.yaml:2: ", "'experiments' stands here twice")),
        ("- demo\n", ("holds no keys", "key: value")),
        ("demo", ("holds no keys",)),
        ("", ("'experiments' names no experiment",)),
    ],
)
def test_broken_parameters_name_their_file(project: Path, text: str, said: tuple[str, ...]) -> None:
    (project / "params.yaml").write_text(text)
    refused(fedshift(project, "plan"), "params.yaml", *said)


def test_a_path_of_a_file_is_told_its_name(project: Path) -> None:
    done(plan(project))
    for verb in ("plan", "table", "figure"):
        refused(fedshift(project, verb, "experiments/tiny.yaml"), "unknown experiment", "Its name is 'tiny'.")


def test_bytes_that_are_no_text_are_named(project: Path) -> None:
    (project / "experiments" / "tiny.yaml").write_bytes(b"title: \xe9t\xe9\n")
    refused(fedshift(project, "plan", "tiny"), "tiny.yaml", "is not UTF-8", "0xe9")
