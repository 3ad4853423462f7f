"""What methods log arrives where it belongs, of those who took part."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.client import Client
from fedshift.federation.method import Method, Visit
from fedshift.federation.server import Server
from fedshift.testing.toys import diagnosed, finish, quadratics

LAYERS = 1  # of the toy network


class Recorder(Method):
    """FedAvg that logs numbers which tell client and round."""

    name = "recorder"
    logs = dict.fromkeys(
        ("scalar", "pair", "all", "layers", "weights", "pairs", "states", "free"), "a number"
    )

    def end(self, C: Client) -> None:
        wrong = torch.zeros((), dtype=torch.float64)
        C.log("scalar", wrong)
        wrong += 10 * C.k + C.t
        C.log("scalar", wrong)  # the last one counts
        C.log("pair", torch.tensor([1.0, -1.0]) * C.k)
        numbers = torch.arange(3.0)
        C.log("all", numbers)
        numbers.zero_()  # what was logged stays
        if C.k != 1:
            C.log("layers", torch.full((LAYERS,), 7.0 * C.k))

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        super().aggregate(S, rows, p, up)
        clients = torch.tensor(S.active, dtype=torch.float64)
        S.log("weights", clients)
        pairs = 100 * clients[:, None, None] + torch.tensor([0, 10])[None, :, None] + clients
        S.log("pairs", pairs, "K layer K")
        states = torch.arange(6.0).view(3, 2)
        S.log("states", states, "N dimension")
        states.zero_()  # what was logged stays
        S.log("free", torch.full((S.t + 1,), 0.5), "length")


def played(chosen: Method, participation: float = 1.0, rounds: int = 2, **options: Any) -> Any:
    """Three clients on quadratics, each a step a round."""
    federation = {"participation": participation}
    return quadratics(chosen, [1.0] * 3, [0.0, 1.0, 2.0], 3.0, 0.1, 1, rounds, federation=federation)


def test_every_number_has_its_place() -> None:
    found = diagnosed(finish(played(Recorder(), participation=0.67)))
    taking_part = {
        t: [client for name, finished, client in found if name == "weights" and finished == t] for t in (1, 2)
    }
    assert [len(clients) for clients in taking_part.values()] == [2, 2]
    expected: dict[tuple[str, int, int], dict[int, float]] = {}
    for t, active in taking_part.items():
        for k in active:
            expected["scalar", t, k] = {0: 10 * k + t - 1}
            expected["pair", t, k] = {0: k, 1: -k}
            expected["all", t, k] = {0: 0, 1: 1, 2: 2}
            if k != 1:
                expected["layers", t, k] = {0: 7 * k}
            expected["weights", t, k] = {0: k}
            expected["pairs", t, k] = {3 * u + j: 100 * k + 10 * u + j for u in (0, 1) for j in active}
        for k in range(3):
            expected["states", t, k] = {0: 2 * k, 1: 2 * k + 1}
        expected["free", t, -1] = dict.fromkeys(range(t), 0.5)
    assert found == expected


def test_where_clients_come_one_after_the_other_each_has_its_row() -> None:
    class Sequential(Recorder):
        def round(self, S: Server, train: Callable[[Sequence[int]], None]) -> None:
            for k in S.shuffled():
                train([k])

    found = diagnosed(finish(played(Sequential(), rounds=1)))
    assert {client: values for (name, _, client), values in found.items() if name == "weights"} == {
        k: {0: k} for k in range(3)
    }
    assert {client: values for (name, _, client), values in found.items() if name == "pairs"} == {
        k: {3 * u + k: 101 * k + 10 * u for u in (0, 1)} for k in range(3)
    }
    assert [values for (name, _, _), values in found.items() if name == "free"] == [{0: 0.5}]  # the last


@pytest.mark.parametrize("everybody", [False, True])
def test_what_is_logged_before_training_is_kept(everybody: bool) -> None:
    class Early(Method):
        name = "early"
        logs = {"first": "the client, where it is visited", "together": "all of them"}

        def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
            sent = visit(range(S.N) if everybody else S.active, self.number)
            S.log("together", torch.stack(sent["k"]), "visited")
            return {}

        def number(self, C: Client) -> Mapping[str, Tensor]:
            C.log("first", torch.tensor(float(C.k)))
            return {"k": torch.tensor(float(C.k))}

    whole = diagnosed(finish(played(Early(), participation=0.67, rounds=1)))
    clients = sorted(client for name, _, client in whole if name == "first")
    assert len(clients) == 3 if everybody else 2
    assert all(whole["first", 1, k] == {0: k} for k in clients)
    assert whole["together", 1, -1] == dict(enumerate(clients))


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (lambda S: S.log("weight", torch.zeros(3)), "unknown log 'weight'\n.*'weights'"),
        (lambda S: S.log("weights", torch.zeros(4)), r"logs 'weights' of shape \(4,\)"),
        (lambda S: S.log("pairs", torch.zeros(3, 3), "K"), r"logs 'pairs' of shape \(3, 3\)"),
    ],
)
def test_a_name_or_shape_that_does_not_fit_is_refused(
    hook: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorder, "aggregate", lambda self, S, rows, p, up: hook(S))
    with pytest.raises(FedshiftError, match=f"method recorder: {told}"):
        finish(played(Recorder(), rounds=1))
