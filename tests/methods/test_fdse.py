"""FDSE: equations at their boundaries, options and refusals that neither the replay nor the reference covers, and its log."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.federation.client import Client
from fedshift.methods import fdse
from fedshift.methods.fdse import FDSE
from fedshift.methods.fdse.consensus import consensus, min_norm, similarity
from fedshift.methods.fdse.consistency import Alignment
from fedshift.testing.toys import finish, method, small, spec

RUN = spec(local={"batch": 8, "lr": 0.1}, federation={"rounds": 2})
TWO_ROUNDS = spec(local={"batch": 12}, federation={"rounds": 2})


def test_consensus_by_hand() -> None:
    def result(*updates: list[float]) -> list[float]:
        return consensus(torch.tensor(updates, dtype=torch.float64)).tolist()

    assert result([3, 0], [0, 4]) == pytest.approx([1.75, 1.75], abs=1e-12)
    assert result([2, 0], [-5, 0]) == pytest.approx([0, 0], abs=1e-12)
    assert result([1, 0], [3, 0]) == pytest.approx([2, 0], abs=1e-12)
    assert result([1, 0], [1, 0], [0, 1]) == pytest.approx([0.5, 0.5], abs=1e-12)
    assert result([3, 0], [0, 4], [0, 0]) == pytest.approx([7 / 6, 7 / 6], abs=1e-12)
    assert result([0, 0], [0, 0]) == [0, 0]
    assert result([1, 2]) == [1, 2]


@pytest.mark.parametrize("lost", [-math.inf, math.nan])
def test_consensus_of_updates_that_are_not_finite_names_their_clients(lost: float) -> None:
    with pytest.raises(
        FedshiftError, match=r"Eq. 8: the update of clients 0, 2 is infinite or NaN\n.*local.lr"
    ):
        consensus(torch.tensor([[1.0, lost], [1.0, 1.0], [lost, lost]]))


def test_consensus_harms_nobody() -> None:
    """Random updates, more than there are dimensions or fewer; no vertex is a direction of descent: <e_k, e> >= ||e||^2."""
    for seed, (clients, n) in enumerate([(2, 50), (4, 50), (10, 3), (30, 8)]):
        updates = torch.randn(clients, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        common = consensus(updates)
        assert (updates @ common >= -1e-9).all()
        louder = updates.clone()
        louder[0] *= 100
        length = louder.norm(dim=1).mean() / updates.norm(dim=1).mean()
        torch.testing.assert_close(consensus(louder), common * length, rtol=1e-7, atol=1e-9)
        u = min_norm(updates @ updates.T)
        assert (u >= 0).all() and u.sum().item() == pytest.approx(1, abs=1e-12)
        assert (updates @ (u @ updates) >= (u @ updates).square().sum() - 1e-9).all()


def test_similarity_where_there_is_no_direction() -> None:
    """A row of zeros keeps itself; a high temperature is the plain mean, a low one nobody else."""
    values = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    weights = similarity(values, 1.0)
    assert weights[2].tolist() == [0, 0, 1]
    expected = [math.e, 1 / math.e, 1]
    assert weights[0].tolist() == pytest.approx([w / sum(expected) for w in expected], abs=1e-6)
    assert similarity(values[:2], 1e9).flatten().tolist() == pytest.approx([0.5] * 4, abs=1e-6)
    assert (similarity(values, 1e-3) @ values).equal(values)


def test_a_network_without_blocks_is_refused() -> None:
    with pytest.raises(FedshiftError, match="'resnet18' has no layer to decompose"):
        method("fdse").model(get("models", "resnet18")(2, 32))


@pytest.mark.parametrize(
    ("consensus", "unit"), [("layer", "stages.stage2.conv"), ("tensor", "stages.stage2.conv.dfe.bn.weight")]
)
def test_an_update_that_is_not_finite_is_named_by_round_unit_and_client(consensus: str, unit: str) -> None:
    """Clients 1 and 2 take part in the second round: the one that diverges stands second."""
    run = RUN.model_copy(update={"federation": RUN.federation.model_copy(update={"participation": 0.67})})

    class Diverges(fdse.FDSE):
        def end(self, C: Client) -> None:
            if C.t == 1 and C.k == 2:
                C.layout.named(C.row)["stages.stage2.conv.dfe.bn.weight"][0] = torch.inf

    diverges = Diverges(fdse.Params(consensus=consensus))
    with pytest.raises(FedshiftError) as raised:
        finish(small(run, diverges))
    assert raised.value.where == f"method fdse, round 2, layer '{unit}'"
    assert "client 2 is infinite or NaN" in raised.value.what


def test_the_term_is_in_the_loss_from_its_round_on() -> None:
    """lam = 0 and "none" are the same run bit for bit."""

    def losses(**hp: Any) -> list[float]:
        run = finish(small(TWO_ROUNDS, method("fdse", **hp)))
        return [row["value"] for row in run.records.rows if row["split"] == "train"]

    with_term, without = losses(lam=1.0), losses(lam=0.0)
    assert with_term[:3] == without[:3] and with_term[3] != without[3]
    assert losses(consistency="none") == without
    assert losses(lam=1.0, consistency_from_round=1)[0] != without[0]


def test_the_term_is_reckoned_in_fp32_under_autocast() -> None:
    def term(reduced: bool) -> Tensor:
        torch.manual_seed(0)
        model = method("fdse").model(get("models", "digits_cnn")(2, 32))
        alignment = Alignment(model, 0.001)
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            model(torch.randn(6, 3, 32, 32))
        return alignment.term()

    near = term(True)
    assert near.dtype == torch.float32
    assert near.item() == pytest.approx(term(False).item(), rel=0.02)


def test_an_unseen_domain_may_have_the_start() -> None:
    """Asking for its model changes nothing on the server."""
    federation = small(RUN, method("fdse", unseen_dse="init"))
    at, start = federation.state.private.at, federation.state.row.clone()
    before = finish(federation).server.row.clone()
    assert federation.method.unseen(federation.server)[0][at].equal(start[at])
    assert federation.server.row.equal(before)


def test_an_unseen_domain_gets_nothing_of_clients_that_never_trained() -> None:
    """One of three clients a round."""
    federation = finish(small(spec(federation={"rounds": 3, "participation": 0.34}), method("fdse")))
    state, (row,) = federation.state, federation.method.unseen(federation.server)
    drawn = [k for k, visits in enumerate(state.visits) if visits]
    assert len(drawn) == 2
    torch.testing.assert_close(row[state.private.at], state.own[drawn].mean(0))


def played(monkeypatch: pytest.MonkeyPatch, **hp: Any) -> tuple[dict[int, Tensor], list[dict[str, Any]]]:
    """Each client's whole gradient at its first step of the second round, and the run's diagnostics."""
    gradients: dict[int, Tensor] = {}
    recording = FDSE.grad

    def spy(self: FDSE, C: Client, g: Tensor) -> None:
        if C.t == 1 and C.steps == 0:
            gradients[C.k] = g.clone()
        recording(self, C, g)

    with monkeypatch.context() as patch:
        patch.setattr(FDSE, "grad", spy)
        run = finish(small(TWO_ROUNDS, method("fdse", **hp)))
    return gradients, [row for row in run.records.rows if row["stage"] == "diagnostic"]


def test_the_recorded_norms_are_those_of_the_two_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs begin round 2 alike, so the difference of their gradients there is the term's alone."""
    task, nothing = played(monkeypatch, lam=0.0)
    whole, recorded = played(monkeypatch, lam=3.0)
    assert not nothing
    assert {row["round"] for row in recorded} == {2}  # the term starts in the second round
    found = {(row["metric"], row["client"]): row["value"] for row in recorded}
    assert len(found) == 2 * len(task)
    for k in task:
        term = whole[k] - task[k]
        assert found["consistency_gradient", k] == pytest.approx(term.norm().item(), rel=1e-3)
        assert found["task_gradient", k] == pytest.approx(task[k].norm().item(), rel=1e-5)
