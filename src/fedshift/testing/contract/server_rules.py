"""The contract of every method's server rule, replayed from a run."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from pytest import MonkeyPatch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.testing.toys import finish, method, small, spec, trained


class Contract:
    """A class of tests, each run for every method in `names`.

    - names: the methods
    - exempt: test -> method -> why the test cannot hold for it
    """

    names: ClassVar[tuple[str, ...]] = ()
    exempt: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test that takes `name` once for each method that is not exempt from it."""
        if "name" in metafunc.fixturenames:
            without = self.exempt.get(metafunc.function.__name__, {})
            metafunc.parametrize("name", [name for name in self.names if name not in without])


@dataclass
class Round:
    """Inputs of a server rule in one round, and the state before it."""

    server: Any
    rows: Tensor
    p: Tensor
    up: dict[str, Tensor]
    before: dict[str, Any]


def captured(federation: Federation, monkeypatch: MonkeyPatch) -> list[Round]:
    """Run to the end and record the inputs of `aggregate`."""
    rounds: list[Round] = []
    aggregate = type(federation.method).aggregate

    def spy(self: Method, S: Any, rows: Tensor, p: Tensor, up: dict[str, Tensor]) -> None:
        before = copy.deepcopy(federation.state.state_dict())
        rounds.append(Round(S, rows.clone(), p.clone(), {k: v.clone() for k, v in up.items()}, before))
        aggregate(self, S, rows, p, up)

    with monkeypatch.context() as patch:
        patch.setattr(type(federation.method), "aggregate", spy)
        finish(federation)
    return rounds


def again(federation: Federation, record: Round, order: list[int]) -> tuple[Tensor, Tensor]:
    """Replay an aggregation with its clients in another order: the server's row, the personal entries."""
    federation.state.load_state_dict(record.before)
    active = record.server.active
    record.server.active = [active[i] for i in order]
    rows = record.rows[order]
    up = {name: value[order] for name, value in record.up.items()}
    federation.method.aggregate(record.server, rows, record.p[order], up)
    record.server.active = active
    personal = torch.empty_like(rows)
    personal[order] = rows
    return federation.state.row.clone(), personal[:, federation.state.personal.at]


def rule(name: str, **federation: Any) -> Federation:
    return small(spec(federation={"rounds": 2, **federation}), method(name))


class ServerRuleContract(Contract):
    """Tests of `aggregate`, its clients in another order, equal, or alone."""

    def test_the_order_of_clients_does_not_matter_to_the_server(
        self, name: str, monkeypatch: MonkeyPatch
    ) -> None:
        """The last round's aggregation, its clients turned round."""
        federation = rule(name)
        rounds = captured(federation, monkeypatch)
        record = rounds[-1]
        shared = federation.state.shared.at
        row, personal = again(federation, record, [0, 1, 2])
        turned, turned_personal = again(federation, record, [2, 0, 1])
        torch.testing.assert_close(turned[shared], row[shared], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(turned_personal, personal, rtol=1e-4, atol=1e-5)

    def test_equal_clients_give_what_one_of_them_gives(self, name: str, monkeypatch: MonkeyPatch) -> None:
        """One client: its own tensors. All clients equal: the same again, whatever their weights."""
        federation = rule(name, rounds=1)
        record = captured(federation, monkeypatch)[0]
        shared = federation.state.shared.at
        record.rows[:] = record.rows[0]
        record.up = {name: value[:1].expand_as(value).clone() for name, value in record.up.items()}
        row, _ = again(federation, record, list(range(len(record.rows))))
        torch.testing.assert_close(row[shared], record.rows[0, shared], rtol=1e-4, atol=1e-5)

    def test_the_weights_it_is_given_count_unless_it_weighs_clients_itself(
        self, name: str, monkeypatch: MonkeyPatch
    ) -> None:
        """The first round's aggregation with other weights, against what the method declares (`weighs`)."""
        federation = rule(name, rounds=1)
        record = captured(federation, monkeypatch)[0]
        rows = []
        for weights in ([0.2, 0.3, 0.5], [0.5, 0.4, 0.1]):
            record.p = torch.tensor(weights).to(record.p)
            rows.append(again(federation, record, [0, 1, 2])[0])
        assert torch.equal(*rows) == federation.method.weighs

    def test_one_client_alone_gets_its_own_model_back(self, name: str, monkeypatch: MonkeyPatch) -> None:
        """The average of one."""
        federation = small(spec(federation={"rounds": 1}), method(name), clients=1)
        record = captured(federation, monkeypatch)[0]
        shared = federation.state.shared.at
        torch.testing.assert_close(federation.state.row[shared], record.rows[0, shared], rtol=1e-5, atol=1e-6)

    def test_all_clients_receive_the_same_shared_entries(self, name: str, monkeypatch: MonkeyPatch) -> None:
        """In every round."""
        federation = rule(name)
        turns = trained(federation, monkeypatch)
        received = torch.stack([row[federation.state.shared.at] for row, _ in turns])
        by_round = received.unflatten(0, (2, len(federation.clients)))
        assert by_round.equal(by_round[:, :1].expand_as(by_round))

    def test_nothing_breaks_when_nobody_moves(self, name: str) -> None:
        """Learning rate 0: all updates, distances and norms of differences are zero."""
        federation = small(spec(local={"lr": 0.0}, federation={"rounds": 2}), method(name))
        finish(federation)
        state = federation.state
        assert state.row[state.shared.at].isfinite().all()
        assert state.own.isfinite().all()
        assert all(slot.isfinite().all() for slot in state.slots.values())
        assert all(torch.tensor(row["value"]).isfinite() for row in federation.records.rows)
