"""Whose is whose where not everybody takes part: messages, slots, weights, averages made as clients come, and models for an unseen domain."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation.batches import participants
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method, Visit
from fedshift.federation.server import Server
from fedshift.federation.state import Slot
from fedshift.spec.resolve import resolve
from fedshift.testing import toys
from fedshift.testing.toys import SIZES, finish, method, small, spec

RUN = spec(federation={"rounds": 4, "participation": 0.67})


ACTIVE = [participants(3, 0.67, 0, t) for t in range(4)]


class Post(Method):
    """FedAvg that numbers what it sends: a client's number and visits up before and after training, and back."""

    name = "post"
    slots = (
        Slot("turns", lambda L, N: (1,), "client"),
        Slot("first", "model", "client", init="received"),
        Slot("round", lambda L, N: (1,), "server", travels="down"),
    )

    def __init__(self, everybody: bool) -> None:
        super().__init__()
        self.everybody = everybody
        self.seen: list[tuple[int, int, int, int]] = []
        self.p: list[list[float]] = []
        self.first: dict[int, Tensor] = {}

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        visited = [0, 1, 2] if self.everybody else S.active
        mine = torch.stack(visit(visited, lambda C: {"mine": torch.tensor([10 * C.k + C.visits])})["mine"])
        assert mine[:, 0].tolist() == [10 * k + sum(k in who for who in ACTIVE[: S.t]) for k in visited]
        S.slot.round.fill_(S.t)
        return {"yours": 100 + (mine[S.active] if self.everybody else mine)}

    def end(self, C: Client) -> Mapping[str, Tensor]:
        self.seen.append((C.t, C.k, int(C.down.yours.item()), int(C.slot.turns.item())))
        assert C.down.round.item() == C.t
        assert len(SIZES) == 3 and C.n == SIZES[C.k][0]
        assert C.slot.first.equal(self.first.setdefault(C.k, C.received.clone()))
        C.slot.turns.add_(1)
        return {"after": torch.tensor(C.k)}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        assert up["after"].tolist() == S.active == ACTIVE[S.t]
        self.p.append(p.tolist())
        super().aggregate(S, rows, p, up)


@pytest.mark.parametrize("everybody", [False, True])
def test_a_client_gets_its_own_message_whichever_place_it_has(everybody: bool) -> None:
    chosen = Post(everybody)
    finish(small(RUN, chosen))
    assert [1, 2] in ACTIVE and [0, 2] in ACTIVE  # places are not numbers
    visits = [0, 0, 0]
    expected = []
    for t, active in enumerate(ACTIVE):
        expected += [(t, k, 100 + 10 * k + visits[k], visits[k]) for k in active]
        for k in active:
            visits[k] += 1
    assert chosen.seen == expected
    for active, p in zip(ACTIVE, chosen.p, strict=True):
        total = sum(SIZES[k][0] for k in active)
        assert p == pytest.approx([SIZES[k][0] / total for k in active])


@pytest.mark.parametrize("name", ["hfedf", "lgfedavg"])
def test_the_unseen_domain_is_tested_with_the_models_of_all_clients(name: str) -> None:
    """Those that rest, too, each as it stands."""
    f = finish(small(RUN, method(name)))
    rows = f.method.unseen(f.server)
    assert len(rows) == 3 > len(f.server.active)
    assert all(not rows[a].equal(rows[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    tested = [row["member"] for row in f.records.rows if (row["round"], row["split"], row["metric"]) == (4, "target", "loss")]  # fmt: skip
    assert tested == [0, 1, 2]
    if f.method.generates:
        for k, row in enumerate(rows):
            assert row.equal(f.method.broadcast(f.server, [k])[0])
    else:
        assert rows[:, f.state.local.at].equal(f.state.own)


def holding(name: str) -> Method:
    """The same method with a server rule of its own, which is the inherited one."""
    kind: type[Method] = get("methods", name)

    class Holding(kind):  # type: ignore[misc, valid-type]
        def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
            super().aggregate(S, rows, p, up)

    return Holding()


def played(method: Method) -> tuple[Federation, list[int]]:
    """A federation after its last round, and how many rows it held when each client trained."""
    blocks = {"federation": {"rounds": 3, "participation": 0.67}, "method": {"name": method.name}}
    federation = toys.small(resolve(toys.spec(**blocks)), method)
    train, held = federation._train_client, []

    def spy(row: Tensor, *rest: Any) -> Any:
        held.append(row.untyped_storage().nbytes() // row.nbytes)
        return train(row, *rest)

    federation._train_client = spy  # type: ignore[method-assign]
    return toys.finish(federation), held


@pytest.mark.parametrize("name", ["fedavg", "fedbn", "ditto", "moon"])
def test_the_state_is_that_of_a_mean_over_all_rows(name: str) -> None:
    (streamed, few), (whole, many) = played(toys.method(name)), played(holding(name))
    assert streamed.method.averages and not whole.method.averages
    if len(streamed.clients) > 1:
        assert set(few) == {1} and set(many) == {2}
    torch.testing.assert_close(
        streamed.state_dict()["state"], whole.state_dict()["state"], rtol=0, atol=0, equal_nan=True
    )
