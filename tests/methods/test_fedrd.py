"""FedRD: Eq. 1-4 against the reference and at their boundaries, who has rare classes, its limits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.data.load import load as load_data
from fedshift.data.partition import partition
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.loop import Federation
from fedshift.federation.samples import pooled
from fedshift.methods import fedrd
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, method, recorded, small, spec, trained
from fedshift.training.assemble import assemble
from tests.methods import plain
from tests.reference import Reference
from tests.tolerance import assert_rounded


@pytest.mark.parity
@pytest.mark.parametrize("case", ["eq4_n3", "eq4_equal", "eq4_n2"])
def test_weights_follow_the_reference(case: str) -> None:
    ref = Reference("fedrd.json")
    d, gap = ref.given(f"{case}.d"), ref.given(f"{case}.gap")
    ref.equals(f"{case}.beta", fedrd.beta(d))
    ref.equals(f"{case}.gamma", fedrd.gamma_parts(gap) * gap.sigmoid().sum())
    ref.equals(f"{case}.weights", fedrd.guided_weights(d, gap))
    ref.equals(f"{case}.sum", fedrd.guided_weights(d, gap).sum())


@pytest.mark.parity
@pytest.mark.parametrize(
    ("case", "total", "uncounted"),
    [("official_with_3_models", "official_sum3", 0), ("official_with_4_models_incl_test_domain", "official_sum4", 1)],
)  # fmt: skip
def test_the_released_aggregation_with_and_without_the_fourth_model(
    case: str, total: str, uncounted: int
) -> None:
    ref = Reference("fedrd.json")
    weights = fedrd.guided_weights(ref.given("eq4_n3.d"), ref.given("eq4_n3.gap"), uncounted)
    for domain, weight in zip("pac", weights, strict=True):
        ref.equals(f"{case}.{domain}", weight)
    ref.equals(total, weights.sum())


@pytest.mark.parity
def test_lambda_follows_the_reference() -> None:
    ref = Reference("fedrd.json")
    distance = fedrd.classifier_distance(ref.given("lambda_Wglobal"), ref.given("lambda_Wlocal"))
    ref.equals("distance", distance)
    ref.equals("lam", distance.mean())


@pytest.mark.parity
def test_the_debiased_loss_follows_the_reference() -> None:
    ref = Reference("fedrd.json")
    logits, labels = ref.given("logits"), ref.given("labels").long()
    few = torch.zeros(3, dtype=torch.float64).index_fill(0, ref.given("few_shot").long(), 1)
    alpha = fedrd.class_weights(few, torch.tensor(ref.given("lam"), dtype=torch.float64))
    ref.equals("loss_eq2_sum", fedrd.debiased_cross_entropy(logits, labels, alpha, "sum"))
    ref.equals("loss_batch_mean", fedrd.debiased_cross_entropy(logits, labels, alpha, "batch_mean"))
    weighted = fedrd.debiased_cross_entropy(logits, labels, alpha, "weighted_mean")
    ref.equals("loss_official_torch_weighted_mean", weighted)
    plain = fedrd.class_weights(few, torch.tensor(0.0, dtype=torch.float64))
    for norm in ("weighted_mean", "batch_mean"):
        ref.equals("plain_ce_mean", fedrd.debiased_cross_entropy(logits, labels, plain, norm))


def test_weights_by_hand() -> None:
    """N = 2, d = (1, 3), no gap: halves of (3/4, 1/4) and (1/2, 1/2)."""
    d, still = torch.tensor([1.0, 3.0]), torch.zeros(2)
    assert fedrd.guided_weights(d, still).tolist() == [0.625, 0.375]
    assert fedrd.guided_weights(torch.zeros(3), torch.zeros(3)).tolist() == pytest.approx([1 / 3] * 3)
    assert fedrd.guided_weights(torch.tensor([7.0]), torch.tensor([-2.0])).tolist() == [1.0]


@pytest.mark.parametrize("level", [-120.0, -1e4, 120.0])
def test_weights_are_finite_where_every_gap_is_far_from_zero(level: float) -> None:
    """sigmoid(-120) is 0 in fp32: parts go by exp(gap) there, and are equal where every gamma is 1."""
    d, gap = torch.ones(3), level + torch.tensor([0.0, 0.0, 1.0])
    weights = fedrd.guided_weights(d, gap)
    parts = torch.tensor([1.0, 1.0, 2.718281828]) if level < 0 else torch.ones(3)
    torch.testing.assert_close(weights, (1 / 3 + parts / parts.sum()) / 2, rtol=1e-4, atol=0)


# Train, val, test: weights by train and val are those by train alone.
PROPORTIONAL = ((16, 8, 3), (6, 3, 3), (12, 6, 3))


def test_without_guidance_clients_weigh_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training and validation samples: 16 + 3, 6 + 5 and 14 + 4."""
    federation = small(spec(federation={"rounds": 1}), method("fedrd", guide=False))
    rows = torch.stack([row for _, row in trained(federation, monkeypatch)])
    parts = torch.tensor([19.0, 11.0, 18.0])[:, None] / 48 * rows
    assert_rounded(federation.server.row, parts.sum(0), parts)


def test_without_both_parts_it_is_fedavg_bit_for_bit() -> None:
    """Also without rare classes: clients hold as many of their validation samples as of their training samples."""
    run = spec(local={"epochs": 3, "clip": 1.0}, federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"), sizes=PROPORTIONAL)).server.row
    off = small(run, method("fedrd", guide=False, debias=False), sizes=PROPORTIONAL)
    assert finish(off).server.row.equal(fedavg)
    none = small(run, method("fedrd", guide=False), sizes=PROPORTIONAL)
    none.clients[:] = [replace(one, few_shot=()) for one in none.clients]
    assert finish(none).server.row.equal(fedavg)


def test_no_validation_sample_is_an_error() -> None:
    federation = small(spec(), method("fedrd"))
    federation.clients[2].val.resize_(0)
    with pytest.raises(FedshiftError, match="client 2: it holds no val sample"):
        finish(federation)


EXPERIMENT = """
title: any
protocol: digits
spec:
  data: {{dataset: digits, target: texture}}
  partition: {{{partition}}}
  federation: {{rounds: 1}}
  local: {{batch: 128, epochs: 1}}
  evaluation: {{keep: none}}
methods: {{fedrd: }}
axes: {{seed: [0]}}
"""


def divided(project: Path, divided_by: str = "") -> Federation:
    """Of the rendered digits, by an experiment's file."""
    workspace, file = Workspace(project), project / "experiments" / "shifted.yaml"
    file.write_text(EXPERIMENT.format(partition=divided_by))
    (cell,) = expand(workspace, load(workspace, "shifted"))
    partition(workspace, cell.spec)
    return assemble(cell.spec, load_data(workspace, cell.spec), torch.device("cpu"))[0]


def test_drawn_classes_reach_the_loss_and_no_other_class_does(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a data set without named classes: Eq. 2 leaves plain cross entropy where the partition says so, by client."""
    federation = divided(project, "modify: {label_shift: {share: 0.3}}")
    told = [client.few_shot for client in federation.clients]
    assert [len(labels) for labels in told] == [3, 3, 3] and len(set(told)) > 1
    assert set(pooled(federation.clients)[0].few_shot) == set().union(*told)
    with monkeypatch.context() as patch:
        alphas = recorded(fedrd, "class_weights", patch)
        finish(federation)
    logits, y = torch.randn(10, 10, generator=torch.Generator().manual_seed(0)), torch.arange(10)
    plain = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    assert len(alphas) == 3
    for labels, (few, _, _), client in zip(told, alphas, federation.clients, strict=True):
        alpha = fedrd.class_weights(few, torch.tensor(0.5))
        debiased = [fedrd.debiased_cross_entropy(*one, alpha, "sum") for one in zip(logits.split(1), y.split(1), strict=True)]  # fmt: skip
        assert tuple((torch.stack(debiased) != plain).nonzero().flatten().tolist()) == labels
        held = federation.worker.samples.host_labels[client.train].bincount(minlength=10)
        assert set(held.argsort()[:3].tolist()) == set(labels)


def test_a_client_of_two_domains_has_the_rare_classes_of_both(project: Path) -> None:
    classes = {"plain": [0], "ink": [1, 2], "outline": [9]}
    shift = f"scheme: domains_per_client, params: {{d: 2}}, modify: {{label_shift: {{classes: {classes}}}}}"
    for client in divided(project, shift).clients:
        assert len(client.domains) == 2
        both = sorted(label for domain in client.domains for label in classes[domain])
        assert client.few_shot == tuple(both)


# Three rounds of FedRD, one of three unequal clients at rest, against the same rounds written out from the paper, in fp64 and without the method's functions.
LOCAL = {
    "batch": 5, "lr": 0.02, "momentum": 0.9, "epochs": 2, "batch_rule": "drop_last", "weight_decay": 5e-3,
    "optimizer_state": "persist",
}  # fmt: skip
FEW = [[1], [0], [0, 1]]  # of each client, as the toys have it
INDICATOR, HEAD = "stages.stage1.conv.weight", "head.weight"


def losses(out: Tensor, y: Tensor) -> Tensor:
    return -torch.log_softmax(out, 1)[torch.arange(len(y)), y]


def validation(f: Federation, P: plain.Tensors, k: int) -> Tensor:
    """F(D_i; w) of Eq. 3."""
    x, y = f.worker.samples.take(f.clients[k].val)
    return losses(plain.logits(P, plain.pixels(x).double(), train=False), y).mean()


def lengths(W: Tensor) -> Tensor:
    return W.square().sum(1).sqrt()


@pytest.mark.parametrize(
    ("hp", "counted"),
    [
        ({"lambda_from": "epoch_start", "ce_norm": "weighted_mean"}, 2),
        ({"lambda_from": "prev_round", "ce_norm": "batch_mean"}, 2),
        ({"lambda_from": "step", "ce_norm": "sum", "official_bug_n4": True}, 3),
    ],
)
def test_three_rounds(hp: dict[str, Any], counted: int) -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedrd", **hp))
    assert [list(client.few_shot) for client in f.clients] == FEW
    G = {name: value.double() for name, value in plain.named(f, f.state.row).items()}
    momenta: list[plain.Tensors] = [{} for _ in plain.SIZES]
    last: list[Tensor | None] = [None for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        up: list[plain.Tensors] = []
        gap, d = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
        for i, k in enumerate(plain.active(f, t)):
            P = {name: value.clone() for name, value in G.items()}
            before = G[HEAD] if last[k] is None else last[k]
            gap[i] = validation(f, P, k)
            for new_epoch, x, y in plain.batches(f, k, t):
                if new_epoch or hp["lambda_from"] == "step":
                    W = before if hp["lambda_from"] == "prev_round" else P[HEAD].detach()
                    alpha = torch.ones(2, dtype=torch.float64)
                    alpha[FEW[k]] += lengths(G[HEAD] - W).mean()
                plain.leaves(P)
                weighted = losses(plain.logits(P, x.double(), train=True), y) * alpha[y]
                count = {"weighted_mean": alpha[y].sum(), "batch_mean": len(y), "sum": 1}[hp["ce_norm"]]
                plain.descend(P, weighted.sum() / count, LOCAL["lr"], momenta[k], f.worker.spec.local)
            last[k] = P[HEAD]
            gap[i] -= validation(f, P, k)
            d[i] = (P[INDICATOR] - G[INDICATOR]).square().sum().sqrt()
            up.append(P)
        gamma = 1 / (1 + torch.exp(-gap))
        weights = ((1 - d / d.sum()) / (counted - 1) + gamma / gamma.sum()) / 2
        G = plain.average(up, weights.tolist())
    finish(f)
    assert plain.far(plain.named(f, f.state.row), G) < 5e-5  # the engine is in fp32 here
