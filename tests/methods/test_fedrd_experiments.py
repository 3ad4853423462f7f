"""FedRD on prepared data and in the project's experiments."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedshift.assemble import assemble
from fedshift.data.partition import partition
from fedshift.experiments.declared import merge
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load, protocol
from fedshift.methods import fedrd
from fedshift.resolve import resolve
from fedshift.spec import parse
from fedshift.workspace import Workspace
from tests.conftest import ROOT
from tests.federation.toys import finish, recorded


def test_on_real_digits_the_domains_of_the_partition_find_their_classes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_shot = {"plain": [1], "ink": [2, 3], "outline": [9]}
    run = merge(protocol(project, "digits").spec, {
        "data": {"target": "texture"},
        "method": {"name": "fedrd", "params": {"few_shot": few_shot}},
        "federation": {"rounds": 1}, "local": {"batch": 128, "epochs": 1}, "evaluation": {"keep": "none"},
    })  # fmt: skip
    chosen, workspace = resolve(parse(run, "test")), Workspace(project)
    partition(workspace, chosen)
    alphas = recorded(fedrd, "class_weights", monkeypatch)
    federation, *_ = assemble(workspace, chosen, torch.device("cpu"))
    finish(federation)
    classes = [alpha[0].nonzero().flatten().tolist() for alpha in alphas]
    assert dict(zip((client.domains[0] for client in federation.clients), classes, strict=True)) == few_shot
    assert federation.server.row.isfinite().all()


def test_the_experiments_say_what_the_code_s_defaults_say() -> None:
    """Presets of FedRD's protocol on PACS: who of Table 5 has which classes, parts and weights."""
    cells = {cell.label: cell.spec for cell in expand(ROOT, load(ROOT, "fedrd/table5"))}
    few_shot = {"photo": (4, 5, 6), "art_painting": (0, 1, 6), "cartoon": (3, 4, 6), "sketch": (1, 2, 3)}
    own = {"fedrd": {}, "without-DC": {"debias": False}, "without-GGA": {"guide": False}, "released": {"official_bug_n4": True}}  # fmt: skip
    assert {label: run.method.params for label, run in cells.items()} == {
        label: {"few_shot": few_shot, **changed} for label, changed in own.items()
    }
    assert {(run.local.epochs, run.local.optimizer_state) for run in cells.values()} == {(5, "persist")}
