"""The parts of a round that FedAvg does not use: first pass and exchange, generated models, one client after the other, own optimiser rules."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from fedshift.federation.batches import generator
from fedshift.federation.client import Client
from fedshift.federation.layout import Index, Layout
from fedshift.federation.method import Method, Visit
from fedshift.federation.optimizer import Rule
from fedshift.federation.server import Server
from fedshift.federation.state import Slot
from fedshift.methods.stablefdg import one_per_class
from fedshift.testing.toys import finish, images, method, quadratics, small, spec, trained


class Swap(Method):
    """Every client sends a number before anybody trains, and gets the next one's back; the server counts the exchanges."""

    name = "swap"
    slots = (Slot("count", lambda L, N: (1,), "server", travels="down"),)

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        if S.t == 1:
            return {}
        S.slot.count += 1
        return {"yours": torch.stack(visit(S.active, self.number)["mine"]).roll(-1, 0)}

    def number(self, C: Client) -> Mapping[str, Tensor]:
        C.model(next(C.batches())[0])  # moves the statistics of this row, which does not last
        return {"mine": torch.tensor([10.0 * C.t + C.k])}

    def end(self, C: Client) -> Mapping[str, Tensor]:
        return {"again": torch.stack([getattr(C.down, "yours", torch.tensor([-1.0]))[0], C.down.count[0]])}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        super().aggregate(S, rows, p, up)
        self.seen = [*getattr(self, "seen", []), up["again"].tolist()]


def test_all_begin_before_the_first_trains_and_get_what_the_server_made_of_it() -> None:
    run = spec(federation={"rounds": 3})
    swap = Swap()
    federation = finish(small(run, swap))
    assert swap.seen == [
        [[1.0, 1.0], [2.0, 1.0], [0.0, 1.0]],
        [[-1.0, 1.0]] * 3,  # round 1 has no exchange
        [[21.0, 2.0], [22.0, 2.0], [20.0, 2.0]],
    ]
    assert federation.server.row.equal(finish(small(run, method("fedavg"))).server.row)
    rows = [row for row in federation.records.rows if row["stage"] == "cost"]
    costs = {(row["round"], row["metric"]): row["value"] for row in rows}
    one = (federation.layout.size) * 4
    assert costs[1, "bytes_up"] == 3 * (one + 4 + 8)
    assert costs[1, "bytes_down"] == 3 * (one + 4 + 4)  # the model once, though the row was restored
    assert costs[2, "bytes_down"] == 3 * (one + 4)


class Generator(Method):
    """The server holds one number for each client, which is its model; it takes an SGD step on it."""

    name = "generator"
    slots = (
        Slot("phi", "w", "server", init=lambda L, N, rng: torch.tensor([1.0, 2.0], dtype=torch.float64)),
    )
    lr = 0.5

    def broadcast(self, S: Server, clients: list[int]) -> Tensor:
        return S.slot.phi[clients, None]

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        g = torch.zeros_like(S.slot.phi)
        g[S.active] = S.slot.phi[S.active] - rows[:, 0]
        S.descend("phi", g, Rule("sgd", self.lr, momentum=0.9))


def test_generated_models_and_the_servers_optimiser() -> None:
    """One step each on (w - 0)^2 / 2 and (w - 4)^2 / 2, lr .5: half the way; the server goes half of that, with momentum."""
    federation = quadratics(Generator(), [1.0, 1.0], [0.0, 4.0], 9.0, 0.5, 1, 2)
    finish(federation)
    first = [1 - 0.5 * 0.5, 2 + 0.5 * 1.0]
    second = [
        first[0] - 0.5 * (0.9 * 0.5 + 0.5 * first[0]),
        first[1] - 0.5 * (0.9 * -1.0 + 0.5 * (first[1] - 4.0)),
    ]
    assert federation.server.slot.phi.tolist() == pytest.approx(second, abs=1e-12)
    assert federation.evaluator.weights()["generated"].flatten().tolist() == pytest.approx(second, abs=1e-12)
    assert federation.evaluator.reported == ("personal", "post_agg")


class Mixer(Method):
    """Keeps the head per client; the server hands each client the next one's."""

    name = "mixer"

    def personal(self, L: Layout) -> Index:
        return L.under("head")

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        super().aggregate(S, rows, p, up)
        rows[:, S.personal.at] = rows[:, S.personal.at].roll(1, 0)


def test_what_the_server_mixes_reaches_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small(spec(federation={"rounds": 2}), Mixer())
    seen, head = trained(federation, monkeypatch), federation.state.personal.at
    a, b, c = (row[head] for _, row in seen[:3])
    received = [row[head] for row, _ in seen[3:]]
    assert [one.equal(other) for one, other in zip(received, (c, a, b), strict=True)] == [True] * 3


def test_measuring_batching_and_one_sample_of_each_class() -> None:
    measured: dict[int, list[float]] = {}

    class Look(Method):
        name = "look"

        def begin(self, C: Client) -> None:
            assert C.model.training
            val = C.mean("val", lambda x, y: C.criterion(C.model(x).logits, y))
            assert C.model.training
            shown = [(x, y) for x, y in C.batches()]
            assert sum(len(y) for _, y in shown) == C.n
            x, y = one_per_class(C)
            assert y.tolist() == [0, 1]
            assert x.shape == (2, 3, 32, 32)
            frozen = C.frozen(C.received)
            assert not frozen.training
            assert frozen(x).logits.grad_fn is None
            assert C.data.domains == (f"domain{C.k}", f"domain{(C.k + 1) % 3}")
            measured[C.k] = [val.item()]

        def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
            assert C.labels.tolist() == y.tolist()
            C.tmp.epochs = getattr(C.tmp, "epochs", 0) + C.new_epoch
            return super().loss(C, x, y)

        def end(self, C: Client) -> None:
            assert C.tmp.epochs == 2
            assert C.data.domains == (f"domain{C.k}", f"domain{(C.k + 1) % 3}")

    federation = small(spec(federation={"rounds": 1}, local={"epochs": 2}), Look())
    finish(federation)
    rows = [row for row in federation.records.rows if (row["round"], row["split"]) == (0, "val")]
    start = [row["value"] for row in rows if row["metric"] == "loss"]
    assert [measured[k][0] for k in range(3)] == pytest.approx(start, rel=1e-6)


def drawn(visiting: bool, seed: int) -> list[list[float]]:
    """The numbers that arrive from two clients in two rounds, when torch's generator was at `seed`."""
    arrived: list[list[float]] = []

    class Draws(Method):
        name = "draws"

        def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
            if visiting:
                arrived.append(torch.stack(visit(S.active, self.number)["drawn"]).tolist())
            return {}

        def begin(self, C: Client) -> Mapping[str, Tensor] | None:
            return None if visiting else self.number(C)

        def number(self, C: Client) -> Mapping[str, Tensor]:
            return {"drawn": torch.rand(())}

        def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
            if "drawn" in up:
                arrived.append(up["drawn"].tolist())
            super().aggregate(S, rows, p, up)

    federation = quadratics(Draws(), [1.0] * 2, [0.0, 1.0], 3.0, 0.1, 1, 2)
    torch.manual_seed(seed)
    finish(federation)
    return arrived


@pytest.mark.parametrize("visiting", [False, True])
def test_draws_are_the_rounds_and_the_clients(visiting: bool) -> None:
    first = drawn(visiting, 1)
    assert first == drawn(visiting, 2)
    assert len({value for values in first for value in values}) == 4


class Looking(Method):
    """FedAvg that keeps the labels of all batches, by round and client."""

    name = "looking"

    def end(self, C: Client) -> None:
        batches = [y for _, y in C.batches()]
        self.seen = {**getattr(self, "seen", {}), (C.t, C.k): torch.cat(batches).tolist()}


def test_draws_are_those_of_seed_and_round() -> None:
    """The generators that archived runs were made with; other draws before them change nothing."""
    looking, labels = Looking(), images()[0].labels
    federation = finish(small(spec(seed=3), looking))
    for (t, k), seen in looking.seen.items():
        train = federation.clients[k].train
        order = train[torch.randperm(len(train), generator=generator(3, "begin", t, k))]
        assert seen == labels[order].tolist()
    assert len(looking.seen) == 6
    federation.server.start_round(1, [0, 2])
    assert federation.server.rng.initial_seed() == generator(3, "server", 1, 0, 2).initial_seed()


def test_each_client_that_has_trained_is_told_of() -> None:
    federation = small(spec(), method("fedavg"))
    told: list[int] = []
    federation.on_client = lambda: told.append(federation.round)
    finish(federation)
    assert told == [0, 0, 0, 1, 1, 1]


def test_the_server_has_nothing_that_it_received() -> None:
    with pytest.raises(ValueError, match="starts from what no client has sent it"):
        Slot("row", "model", "server", init="received")
    assert Slot("row", "model", "client", init="received").owner == "client"
