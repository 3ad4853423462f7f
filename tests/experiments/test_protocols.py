"""Protocols: every one runs on digits, and its first three rounds are those worked out by hand.

Digits hold plain 454, ink 451, texture 447 and outline 445 images. `outline` is held out where a domain is. Of every client and
domain int(share * n) images are held out, the rest trains.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fedshift.common.registry import own
from fedshift.data.load import load as load_data
from fedshift.data.partition import divide, partition
from fedshift.experiments import load
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.protocols import protocol as protocol_of
from fedshift.federation.batches import schedule
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.optimizer import Optimizer
from fedshift.methods.fedavg import FedAvg
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.training.assemble import assemble
from tests.conftest import ROOT
from tests.data.test_partition import OFFICE, make_index, sizes

SMALL: dict[str, Any] = {
    "data": {"dataset": "digits", "prepare": {"px": 32}, "input_px": 32},
    "model": {"name": "digits_cnn"},
}


@dataclass
class Seen:
    """What three rounds did: (t, k, n, steps, rates) of every turn, and (limit, norm before, norm after) of every clipping."""

    federation: Federation
    turns: list[tuple[int, int, int, int, float, float]]
    clipped: list[tuple[float | None, float, float]]
    optimizers: set[type[torch.optim.Optimizer]]

    def rounds(self) -> list[list[int]]:
        """The clients of every round."""
        return [[k for t, k, *_ in self.turns if t == one] for one in range(3)]

    def sizes(self, *splits: str) -> list[int]:
        """Samples of every client in these splits."""
        return [
            sum(len(client.split(split)) for split in splits) for client in self.federation.evaluated_clients
        ]

    def took(self, steps: Callable[[int], int], rates: list[float]) -> None:
        """Every turn took `steps(n)` steps for its client's n training samples, at its round's rate."""
        for t, k, n, taken, rate, summed in self.turns:
            assert (n, taken) == (self.sizes("train")[k], steps(n))
            assert rate == pytest.approx(rates[t], rel=1e-7)
            assert summed == pytest.approx(taken * rate)


def declared(project: Path, protocol: str, **keys: Any) -> list[Cell]:
    path = project / "experiments" / "tried.yaml"
    held_out = [None] if protocol == "fdse" else ["outline"]
    scratch = {"preset": "scratch"} if "scratch" in protocol_of(Workspace(project), protocol).presets else {}
    told = {"title": "Tried", "protocol": protocol, **scratch, "spec": SMALL, "methods": {"fedavg": None}}
    path.write_text(yaml.safe_dump({**told, "axes": {"target": held_out, "seed": [0]}, **keys}))
    return expand(Workspace(project), load.load(Workspace(project), "tried"))


def play(project: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Three rounds of a run that stays as long as declared: its schedule does not change."""
    workspace = Workspace(project)
    partition(workspace, spec)
    federation, _ = assemble(spec, load_data(workspace, spec), torch.device("cpu"))
    seen = Seen(federation, [], [], set())

    def end(self: FedAvg, client: Client) -> dict[str, torch.Tensor]:
        seen.turns.append((client.t, client.k, client.n, client.steps, client.lr, client.tmp.lr_sum))
        return {}

    def step(self: FedAvg, client: Client, x: torch.Tensor, y: torch.Tensor) -> None:
        client.tmp.lr_sum = getattr(client.tmp, "lr_sum", 0.0) + client.lr

    real = Optimizer.clip

    def clip(self: Optimizer) -> None:
        before = float(self.g.norm())
        real(self)
        seen.optimizers.add(type(self._inner))
        seen.clipped.append((self._clip, before, float(self.g.norm())))

    monkeypatch.setattr(FedAvg, "step", step)
    monkeypatch.setattr(FedAvg, "end", end)
    monkeypatch.setattr(Optimizer, "clip", clip)
    events = federation.run()
    while federation.round < 3:
        next(events)
    return seen


torch.set_num_threads(1)
COSINE = [0.001 * (1 + math.cos(math.pi * t / 50)) / 2 for t in range(3)]  # 0.001 x 1, 0.999013, 0.996057


@dataclass(frozen=True)
class Expected:
    """By hand: each client's training samples, every client's steps, the rate of each round, the clipping norm, samples tested on, out of domain and in."""

    train: list[int]
    steps: int
    rates: list[float]
    clip: float | None = None
    ood: int = 445
    tested: dict[str, list[int]] = field(default_factory=dict)
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD
    spec: dict[str, Any] = field(default_factory=dict)


FDSE = [0.1, 0.0998, 0.0996004]  # 0.1 x 0.998^t


# Steps are epochs x batches of an epoch, for every client's size the same number.
BY_HAND = {
    # held out int(0.2 n) = 90, 90, 89, 89, test int of half of it = 45, 45, 44, 44; 1 x ceil(n / 50) = 8
    "fdse": Expected([364, 361, 358, 356], 8, FDSE, clip=10.0, ood=0, tested={"val": [45] * 4, "test": [45, 45, 44, 44]}),
    # the same without outline, which is tested on the 44 images of its test part
    "fdse_unseen": Expected([364, 361, 358], 8, FDSE, clip=10.0, ood=44, tested={"val": [45] * 3, "test": [45, 45, 44]}),
    # validation int(0.1 n) = 45, 45, 44; remainders dropped: 5 x floor(409 / 16) = 5 x 25, 5 x floor(406 / 16), 5 x floor(403 / 16);
    # all labels stay here: which are made rare is drawn (test_fedrd_makes_classes_rare)
    "fedrd": Expected([409, 406, 403], 125, [0.001] * 3, tested={"val": [45, 45, 44]}, spec={"partition": {"modify": {"label_shift": {"keep": 1.0}}}}),
    # 2 x ceil(409 / 64) = 2 x 7; which client holds which domain is drawn
    "hfedf": Expected([409, 406, 403], 14, [0.001] * 3, optimizer=torch.optim.Adam),
    # 5 x floor(409 / 32) = 5 x 12
    "stablefdg_n3": Expected([409, 406, 403], 60, COSINE, tested={"val": [45, 45, 44]}),
    # fractions as in fdse; 2 x ceil(364 / 32) = 2 x 12; the cosine runs over 100 rounds
    "unified": Expected(
        [364, 361, 358], 24, [0.05, 0.05 * 0.99975328, 0.05 * 0.99901336], clip=10.0, tested={"val": [45] * 3, "test": [45, 45, 44]}
    ),
    # fractions as in fdse; 2 x ceil(364 / 16) = 46, 2 x ceil(361 / 16) = 46, 2 x ceil(358 / 16) = 46; the cosine over 8 rounds
    "digits": Expected([364, 361, 358], 46, [0.2, 0.2 * 0.96193977, 0.2 * 0.85355339]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("protocol", BY_HAND)
def test_first_three_rounds(project: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    expected = BY_HAND[protocol]
    (cell,) = declared(project, protocol, spec=SMALL | expected.spec)
    seen = play(project, cell.spec, monkeypatch)
    everybody = list(range(len(expected.train)))
    assert seen.rounds() == [everybody] * 3
    assert sorted(seen.sizes("train"), reverse=True) == expected.train
    assert {split: seen.sizes(split) for split in expected.tested} == expected.tested
    seen.took(lambda _: expected.steps, expected.rates)
    assert len(seen.clipped) == 3 * expected.steps * len(everybody)
    assert {limit for limit, _, _ in seen.clipped} == {expected.clip}
    assert all(
        after == pytest.approx(before if limit is None else min(before, limit), rel=1e-5)
        for limit, before, after in seen.clipped
    )
    assert not any(limit and before > limit for limit, before, _ in seen.clipped)  # 10 is not reached here
    assert target_sizes(seen.federation) == ({expected.ood} if expected.ood else set())
    assert seen.optimizers == {expected.optimizer}


@pytest.mark.parametrize(
    ("name", "target", "last"),
    [
        ("fdse/table1_office", None, {899: 49, 767: 17, 126: 26, 236: 36}),
        ("fdse/table2_office", "caltech", {767: 17, 126: 26, 236: 36}),
        ("fdse/office_start", None, dict.fromkeys((899, 767, 126, 236), 50)),  # archived, with `wrap`
    ],
)
def test_fdse_trains_on_the_smaller_last_batch_of_every_client(
    name: str, target: str | None, last: dict[int, int]
) -> None:
    """On Office-Caltech10, by hand: ceil(n / 50) = 18, 16, 3 and 5 batches."""
    cells = expand(Workspace(ROOT), load.load(Workspace(ROOT), name))
    spec = next(cell.spec for cell in cells if cell.spec.data.target == target)
    clients = sizes(divide(make_index(OFFICE), spec)).query("client >= 0")["train"].to_dict()
    assert {*clients.values()} == {*last}
    steps = {899: 18, 767: 16, 126: 3, 236: 5}
    for (client, n), t in itertools.product(clients.items(), (0, 499)):
        batches = schedule(n, spec.local, spec.seed, t, client, batch_norm=True)
        assert [len(positions) for _, positions in batches] == [50] * (steps[n] - 1) + [last[n]]
        if last[n] < 50:
            assert sorted(torch.cat([positions for _, positions in batches]).tolist()) == list(range(n))


def target_sizes(federation: Federation) -> set[int]:
    return {row["n"] for row in federation.records.rows if row["split"] == "target"}


@pytest.mark.slow
def test_stablefdg_draws_ten_of_thirty_clients_of_one_domain(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = declared(project, "stablefdg")
    seen = play(project, cell.spec, monkeypatch)
    # A domain of 454 is cut into nine parts of 45 and one of 49, of each of which int(0.1 n) are for validation: 41 and 45 train;
    # 451: 45 and 46, so 41 and 42; 447: 44 and 51, so 40 and 46. One batch of 32 an epoch, the remainder is dropped: 5 steps.
    parts = [*[41] * 9, 45, *[41] * 9, 42, *[40] * 9, 46]
    assert seen.sizes("train") == parts
    assert [client.domains for client in seen.federation.evaluated_clients[::10]] == [
        ("plain",),
        ("ink",),
        ("texture",),
    ]
    drawn = seen.rounds()
    assert all(len(set(one)) == 10 and set(one) <= set(range(30)) for one in drawn)
    assert len(set(map(tuple, drawn))) == 3
    seen.took(lambda _: 5, COSINE)
    assert {limit for limit, _, _ in seen.clipped} == {None}
    assert seen.federation.server.p.tolist() == pytest.approx([0.1] * 10)  # uniform, not by size
    assert target_sizes(seen.federation) == {445}


def test_all_methods_resolve_alike_under_the_unified_protocol(project: Path) -> None:
    everyone: dict[str, Any] = dict.fromkeys(own("methods"))
    cells = declared(project, "unified", methods=everyone)
    assert [cell.label for cell in cells] == list(own("methods"))
    table = load.load(Workspace(ROOT), "unified/pacs")
    assert {
        value["method"]["name"] if value else label for label, value in table.methods.items()
    } == everyone.keys()
    shared = [cell.spec.model_dump(exclude={"method"}) for cell in cells]
    assert all(one == two for one, two in itertools.pairwise(shared))
