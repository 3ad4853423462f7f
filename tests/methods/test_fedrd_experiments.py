"""FedRD on prepared data and in the project's experiments."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedshift.common.registry import get
from fedshift.data.load import load as load_data
from fedshift.data.partition import partition
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.samples import pooled
from fedshift.methods import fedrd
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, recorded
from fedshift.training.assemble import assemble
from tests.conftest import ROOT

PACS = {"photo": [4, 5, 6], "art_painting": [0, 1, 6], "cartoon": [3, 4, 6], "sketch": [1, 2, 3]}
EXPERIMENT = """
title: any
protocol: digits
spec:
  data: {{dataset: digits, target: texture}}
  partition: {{{partition}}}
  federation: {{rounds: 1}}
  local: {{batch: 128, epochs: 1}}
  evaluation: {{keep: none}}
methods: {{{method}: }}
axes: {{seed: [0]}}
"""


def declared(project: Path, partition: str = "", method: str = "fedrd") -> RunSpec:
    """A run on the rendered digits, by an experiment's file."""
    file = project / "experiments" / "shifted.yaml"
    file.write_text(EXPERIMENT.format(partition=partition, method=method))
    (cell,) = expand(Workspace(project), load(Workspace(project), "shifted"))
    return cell.spec


def test_drawn_classes_reach_the_loss_and_no_other_class_does(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a data set without named classes: Eq. 2 leaves plain cross entropy where the partition says so, by client."""
    run, workspace = declared(project, "modify: {label_shift: {share: 0.3}}"), Workspace(project)
    partition(workspace, run)
    federation, *_ = assemble(run, load_data(workspace, run), torch.device("cpu"))
    told = [client.few_shot for client in federation.clients]
    assert [len(labels) for labels in told] == [3, 3, 3] and len(set(told)) > 1
    assert pooled(federation.clients)[0].few_shot == tuple(
        sorted({label for labels in told for label in labels})
    )
    with monkeypatch.context() as patch:
        alphas = recorded(fedrd, "class_weights", patch)
        finish(federation)
    logits, y = torch.randn(10, 10, generator=torch.Generator().manual_seed(0)), torch.arange(10)
    plain = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    assert len(alphas) == 3
    for labels, (few, _, _), client in zip(told, alphas, federation.clients, strict=True):
        alpha = fedrd.class_weights(few, torch.tensor(0.5))
        debiased = [fedrd.debiased_cross_entropy(*one, alpha, "sum") for one in zip(logits.split(1), y.split(1), strict=True)]  # fmt: skip
        differ = (torch.stack(debiased) != plain).nonzero().flatten()
        assert tuple(differ.tolist()) == labels
        held = federation.worker.samples.host_labels[client.train].bincount(minlength=10)
        assert held[list(labels)].max() < held[[label for label in range(10) if label not in labels]].min()


def test_a_client_of_two_domains_has_the_rare_classes_of_both(project: Path) -> None:
    classes = {"plain": [0], "ink": [1, 2], "outline": [9]}
    shift = f"scheme: domains_per_client, params: {{d: 2}}, modify: {{label_shift: {{classes: {classes}}}}}"
    run, workspace = declared(project, shift), Workspace(project)
    partition(workspace, run)
    federation, *_ = assemble(run, load_data(workspace, run), torch.device("cpu"))
    for client in federation.clients:
        assert len(client.domains) == 2
        both = sorted(label for domain in client.domains for label in classes[domain])
        assert client.few_shot == tuple(both)


def test_classes_that_nobody_made_rare_are_not_weighted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without label shift no class is few-shot, and there is no parameter to say otherwise."""
    run, workspace = declared(project), Workspace(project)
    partition(workspace, run)
    weighted = recorded(fedrd, "debiased_cross_entropy", monkeypatch)
    federation, *_ = assemble(run, load_data(workspace, run), torch.device("cpu"))
    assert [client.few_shot for client in federation.clients] == [(), (), ()]
    finish(federation)
    assert not weighted
    assert "few_shot" not in vars(get("methods", "fedrd").Params())


def test_the_experiments_say_what_the_code_s_defaults_say() -> None:
    """FedRD's protocol on PACS: the classes that are made rare, and who of Table 5 has which parts and weights."""
    cells = {cell.label: cell.spec for cell in expand(Workspace(ROOT), load(Workspace(ROOT), "fedrd/table5"))}
    own = {"fedrd": {}, "without-DC": {"debias": False}, "without-GGA": {"guide": False}, "released": {"official_bug_n4": True}}  # fmt: skip
    assert {label: run.method.params for label, run in cells.items()} == own
    assert {(run.local.epochs, run.local.optimizer_state) for run in cells.values()} == {(5, "persist")}
    for run in cells.values():
        assert run.partition.modify["label_shift"]["classes"] == PACS
    names = "dog elephant giraffe guitar horse house person"  # in the order of the released code's numbers
    assert " ".join(get("datasets", "pacs").classes) == names
