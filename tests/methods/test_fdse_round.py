"""FDSE: who owns what, what travels, and the server's part of a round."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.methods import fdse
from fedshift.methods.fdse.consensus import consensus, similarity
from fedshift.testing.toys import finish, method, small
from tests.methods.fdse_toys import RUN, alexnet, spied


def entries(federation: Federation, kind: str) -> list[str]:
    index = getattr(federation.state, kind)
    return [entry.name for entry in federation.layout.entries if index.mask[entry.slice].all()]


def test_classes_of_tensors() -> None:
    federation = small(RUN, method("fdse"))
    tails = {kind: sorted({name.partition("conv.")[2] for name in entries(federation, kind) if "stage" in name})
             for kind in ("shared", "personal", "local")}  # fmt: skip
    assert tails == {
        "shared": ["dfe.bn.bias", "dfe.bn.running_mean", "dfe.bn.running_var", "dfe.bn.weight", "dfe.conv.bias", "dfe.conv.weight"],
        "personal": ["dse.bias.bias", "dse.bn.bias", "dse.bn.weight", "dse.conv.weight"],
        "local": ["dse.bn.running_mean", "dse.bn.running_var"],
    }  # fmt: skip
    assert {"head.weight", "head.bias"} <= set(entries(federation, "shared"))
    assert len(federation.layout.entries) == sum(len(entries(federation, kind)) for kind in tails)
    with_shared_bias = small(RUN, method("fdse", concat_bias="shared"))
    assert "stages.stage1.conv.dfe.bias.bias" in entries(with_shared_bias, "shared")


def test_what_travels() -> None:
    """Shared and personal entries, both ways; neither BN_DSE's statistics nor integer counters."""
    federation = finish(small(RUN, method("fdse")))
    sent = 4 * (federation.state.shared.size + federation.state.personal.size)
    cost = {
        (row["round"], row["metric"]): row["value"]
        for row in federation.records.rows
        if row["stage"] == "cost"
    }
    assert cost[1, "bytes_up"] == cost[1, "bytes_down"] == cost[2, "bytes_up"] == 3 * sent
    layout, chosen = alexnet({})
    travels = layout.size - chosen.local(layout).size
    assert 4 * travels == 26_061_736  # of 26,074,648 in a complete state dict (24.867 MiB, Table 4)


def test_a_network_without_blocks_is_refused() -> None:
    with pytest.raises(FedshiftError, match="'resnet18' has no layer to decompose"):
        method("fdse").model(get("models", "resnet18")(2, 32))


@pytest.mark.parametrize("hp", [{"tau": 0.0}, {"lam": -1.0}, {"G": 0}, {"consensus": "off"}, {"lamb": 1.0}])
def test_impossible_parameters_are_refused(hp: dict[str, Any]) -> None:
    with pytest.raises(FedshiftError, match=r"of fdse|params: fdse: "):
        method("fdse", **hp)


def test_shared_trainable_tensors_of_a_block_are_one_slice() -> None:
    federation = small(RUN, method("fdse"))
    S = federation.server
    shared, personal = S.layers(S.shared), S.layers(S.personal)
    assert len(shared) == 5 and len(personal) == 4
    assert all(isinstance(at, slice) for at in [*shared.values(), *personal.values()])
    assert len(S.layers(S.shared, "tensor")) == 4 * 4 + 2 and len(S.layers(S.personal, "tensor")) == 4 * 4


def test_server_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 8 from what was broadcast, one problem a block and one for the head; Eq. 9 a block; statistics by plain mean, whatever the sizes."""
    federation = small(RUN, method("fdse", tau=0.3))
    L = federation.layout
    for one in spied(federation, monkeypatch):
        rows, row = one["rows"], one["row"]
        for name in [f"stages.stage{i}.conv" for i in (1, 2, 3, 4)] + ["head"]:
            block = L.under(name)
            at = (block & federation.state.shared & L.trainable).at
            expected = one["base"][at] + consensus(rows[:, at] - one["base"][at])
            torch.testing.assert_close(row[at], expected, rtol=0, atol=0)
            assert not row[at].equal(rows[:, at].mean(0))
            at = (block & federation.state.personal).at
            if name != "head":
                torch.testing.assert_close(
                    one["mixed"][:, at], similarity(rows[:, at], 0.3) @ rows[:, at], rtol=0, atol=0
                )
                assert not one["mixed"][0, at].equal(one["mixed"][1, at])
        statistics = (federation.state.shared & ~L.trainable).at
        torch.testing.assert_close(row[statistics], rows[:, statistics].mean(0))
        assert one["p"].tolist() == pytest.approx([16 / 36, 6 / 36, 14 / 36])
        assert rows[:, federation.state.local.at].isnan().all()


@pytest.mark.parametrize(
    ("consensus", "unit"), [("layer", "stages.stage2.conv"), ("tensor", "stages.stage2.conv.dfe.bn.weight")]
)
@pytest.mark.parametrize("lost", [torch.inf, torch.nan])
def test_an_update_that_is_not_finite_is_named_by_round_unit_and_client(
    lost: float, consensus: str, unit: str
) -> None:
    """Clients 1 and 2 take part in the second round: the one that diverges stands second."""
    run = RUN.model_copy(update={"federation": RUN.federation.model_copy(update={"participation": 0.67})})
    who: list[int] = []

    class Diverges(fdse.FDSE):
        def end(self, C: Client) -> None:
            if C.t == 1 and C.k == 2:
                who.append(C.k)
                C.named(C.row)["stages.stage2.conv.dfe.bn.weight"][0] = lost

    diverges = Diverges(fdse.Params(consensus=consensus))
    with pytest.raises(FedshiftError) as raised:
        finish(small(run, diverges))
    assert who == [2]
    assert raised.value.where == f"method fdse, round 2, layer '{unit}'"
    assert "client 2 is infinite or NaN" in raised.value.what
    assert "local.lr" in raised.value.cure and "local.clip" in raised.value.cure


def test_clients_get_the_mixed_values_and_keep_their_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next round: the global shared tensors, their own row of Eq. 9, and BN_DSE's statistics as they left them."""
    federation = small(RUN, method("fdse"))
    received: dict[tuple[int, int], Tensor] = {}
    left: dict[tuple[int, int], Tensor] = {}
    train = loop.train

    def spy(self: Client, hooks: Method) -> Tensor:
        received[self.t, self.k] = self.received.clone()
        result = train(self, hooks)
        left[self.t, self.k] = self.row.clone()
        return result

    monkeypatch.setattr(loop, "train", spy)
    first = spied(federation, monkeypatch)[0]
    state = federation.state
    for k in range(3):
        assert received[1, k][state.shared.at].equal(first["row"][state.shared.at])
        assert received[1, k][state.personal.at].equal(first["mixed"][k, state.personal.at])
        assert not received[1, k][state.personal.at].equal(left[0, k][state.personal.at])
        assert received[1, k][state.local.at].equal(left[0, k][state.local.at])
        assert received[0, k].equal(received[0, 0])  # one start, personal tensors included
    assert not left[0, 0][state.local.at].equal(left[0, 1][state.local.at])


def test_the_evaluated_model_is_the_one_after_training() -> None:
    federation = small(RUN, method("fdse"))
    assert federation.evaluator.reported == ("personal", "post_train")
