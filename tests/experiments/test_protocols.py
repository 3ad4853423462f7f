"""Protocols: every one runs on digits, and its first three rounds are those worked out by hand.

Digits hold plain 454, ink 451, texture 447 and outline 445 images. `outline` is held out where a domain is. Sizes below follow from
methods.md, section 8: int(share * n) images of every client and domain are held out, the rest trains.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fedshift.data.load import load as load_data
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index
from fedshift.errors import FedshiftError
from fedshift.experiments import load
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.sources import beside, headline, settings
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.optimizer import Optimizer
from fedshift.identity import prepared_name
from fedshift.methods.fedavg import FedAvg
from fedshift.registry import own
from fedshift.spec import Model, RunSpec
from fedshift.training.assemble import assemble
from fedshift.workspace import Workspace
from tests.conftest import ROOT

torch.set_num_threads(1)

SMALL: dict[str, Any] = {
    "data": {"dataset": "digits", "prepare": {"px": 32}, "input_px": 32},
    "model": {"name": "digits_cnn"},
}
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
    # held out int(0.2 n) = 90, 90, 89, 89, test int of half of it = 45, 45, 44, 44; wrap: 1 x ceil(n / 50) = 8
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
    scratch = (
        {"preset": "scratch"} if "scratch" in load.protocol(Workspace(project), protocol).presets else {}
    )
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
        seen.turns.append((client.t, client.k, client.n, client.steps, client.lr, client.lr_sum))
        return {}

    real = Optimizer.clip

    def clip(self: Optimizer) -> None:
        before = float(self.g.norm())
        real(self)
        seen.optimizers.add(type(self._inner))
        seen.clipped.append((self._clip, before, float(self.g.norm())))

    monkeypatch.setattr(FedAvg, "end", end)
    monkeypatch.setattr(Optimizer, "clip", clip)
    events = federation.run()
    while federation.round < 3:
        next(events)
    return seen


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


def test_clipping_acts_where_a_gradient_is_longer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = declared(project, "fdse", spec={**SMALL, "local": {"clip": 0.5}})
    clipped = play(project, cell.spec, monkeypatch).clipped
    longer = [after for limit, before, after in clipped if before > 0.5]
    assert 0 < len(longer) <= len(clipped) == 96
    assert longer == pytest.approx([0.5] * len(longer), rel=1e-5)


def target_sizes(federation: Federation) -> set[int]:
    return {row["n"] for row in federation.records.rows if row["split"] == "target"}


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


def test_fedrd_makes_classes_rare(project: Path) -> None:
    """Of 10 classes round(10 x 3 / 7) = 4 are rare at each client, drawn for each; of their training images a tenth stays."""
    (cell,) = declared(project, "fedrd")
    workspace = Workspace(project)
    table, _ = load_partition(
        partition(workspace, cell.spec), load_index(workspace.prepared(prepared_name(cell.spec.data)))
    )
    clients = table[table["client"] >= 0]
    train = clients[clients["split"] == "train"].groupby(["client", "label"]).size().unstack()
    val = clients[clients["split"] == "val"].groupby("client").size()
    assert (train < 10).sum(axis=1).tolist() == [4, 4, 4]  # a tenth of some 40
    assert (train > 25).sum(axis=1).tolist() == [6, 6, 6]
    assert len({tuple(row) for row in (train < 10).to_numpy()}) > 1
    assert val.tolist() == [45, 45, 44]


def test_stablefdg_multi_spreads_every_domain(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled: 12 clients of at least 20 images instead of 30 of at least 70; a third of them takes part."""
    scaled = {**SMALL, "partition": {"params": {"clients": 12, "min_size": 20}}}
    (cell,) = declared(project, "stablefdg_multi", spec=scaled)
    assert cell.spec.partition.params == {"clients": 12, "min_size": 20}  # alpha 0.5 is the scheme's default
    seen = play(project, cell.spec, monkeypatch)
    held = seen.sizes("train", "val")
    assert sum(held) == 454 + 451 + 447 and min(held) >= 20
    assert max(len(one.domains) for one in seen.federation.evaluated_clients) > 1
    assert [len(one) for one in seen.rounds()] == [4, 4, 4]
    seen.took(lambda n: 5 * max(1, n // 32), COSINE)


def test_every_protocol_is_run_here() -> None:
    assert {*BY_HAND, "stablefdg", "stablefdg_multi"} == set(load.protocols(Workspace(ROOT)))


@pytest.mark.parametrize(
    ("protocol", "preset", "differs"),
    [
        ("fdse", "released", {"local": {"schedule": {"kind": "exponential", "unit": "round", "gamma": 0.9998, "step": 1}}}),
        ("fedrd", "released", {"federation": {"rounds": 101}, "model": {"init": "imagenet"}}),
        ("fedrd", "scratch", {"federation": {"rounds": 100}, "model": {"init": "scratch"}}),
        ("hfedf", "bf16", {"local": {"precision": "bf16"}, "model": {"init": "scratch"}}),
        ("stablefdg", "released", {"local": {"schedule": {"kind": "constant", "unit": "round", "gamma": 1.0, "step": 1}}}),
        ("stablefdg_n3", "scratch", {"model": {"init": "scratch"}, "federation": {"participation": 1.0}}),
    ],
)  # fmt: skip
def test_presets_change_what_they_name(
    project: Path, protocol: str, preset: str, differs: dict[str, Any]
) -> None:
    network = {"model": {"name": "resnet18"}, "data": {**SMALL["data"], "input_px": 32}}
    (cell,) = declared(project, protocol, preset=preset, spec=network)
    told = cell.spec.model_dump()
    for block, values in differs.items():
        assert {key: told[block][key] for key in values} == values
    (default,) = declared(project, protocol, preset="default", spec=network)
    assert default.spec != cell.spec


@pytest.mark.parametrize("protocol", ["fedrd", "stablefdg", "stablefdg_multi", "stablefdg_n3"])
def test_imagenet_is_the_papers_start_and_scratch_differs_in_nothing_else(
    project: Path, protocol: str
) -> None:
    pacs: dict[str, Any] = {"spec": {"data": {"dataset": "pacs"}}, "axes": {"target": ["photo"]}}
    (default,) = declared(project, protocol, preset="default", **pacs)
    (scratch,) = declared(project, protocol, preset="scratch", **pacs)
    assert default.spec.model == Model(name="resnet18", init="imagenet")
    assert default.spec.partition.split == "official"  # the published lists
    assert scratch.spec == default.spec.model_copy(update={"model": Model(name="resnet18")})


def test_every_paper_is_trained_in_fp32() -> None:
    for name in load.protocols(Workspace(ROOT)):
        known = load.protocol(Workspace(ROOT), name)
        if known.paper:
            assert known.spec["local"]["precision"] == "fp32"
            assert known.sources["local.precision"].why


@pytest.mark.parametrize(
    ("protocol", "preset", "dataset", "place", "value"),
    [
        ("fdse", "default", "pacs", ("local", "epochs"), 5),
        ("fdse", "default", "office_caltech10", ("local", "epochs"), 1),
        ("fdse", "default", "domainnet10", ("local", "epochs"), 5),
        ("fdse", "released", "domainnet10", ("local", "epochs"), 1),
        ("fdse_unseen", "default", "pacs", ("local", "epochs"), 5),
        ("fedrd", "default", "office_home", ("model", "name"), "resnet50"),
        ("stablefdg", "default", "digits_dg", ("local", "clip"), 2.5),
        ("stablefdg", "default", "vlcs", ("partition", "target_split"), "test"),
        ("stablefdg_n3", "default", "domainnet", ("federation", "rounds"), 60),
    ],
)
def test_a_data_set_changes_what_the_paper_changes_for_it(
    protocol: str, preset: str, dataset: str, place: tuple[str, str], value: object
) -> None:
    settings = load.protocol(Workspace(ROOT), protocol).settings(dataset, preset, "test")
    assert settings[place[0]][place[1]] == value


def test_mistakes_are_named(project: Path) -> None:
    with pytest.raises(FedshiftError, match="'relesed'") as error:
        declared(project, "fdse", preset="relesed")
    assert "released" in str(error.value)
    (project / "reference" / "protocols" / "a.yaml").write_text("{title: A, base: b}")
    (project / "reference" / "protocols" / "b.yaml").write_text("{title: B, base: a}")
    with pytest.raises(FedshiftError, match="is based on itself"):
        load.protocol(Workspace(project), "a")
    with pytest.raises(FedshiftError, match="where the protocol names seeds"):
        declared(project, "digits", axes={"target": ["ink"], "seed": "all"})


def test_all_seeds_are_those_of_the_protocol(project: Path) -> None:
    cells = declared(project, "fdse", axes={"seed": "all"})
    assert [cell.spec.seed for cell in cells] == [2, 4388, 15, 333, 967]


def test_presets_of_methods_hold_for_protocols_that_build_on_theirs(project: Path) -> None:
    (project / "reference" / "presets" / "fedavg.yaml").write_text(
        "{fdse: {digits: {local: {lr: 0.3}}}, fdse_unseen: {'*': {local: {clip: 7.0}}}}"
    )
    (cell,) = declared(project, "fdse_unseen")
    assert (cell.spec.local.lr, cell.spec.local.clip) == (0.3, 7.0)


def test_sources_are_told_of_settings_that_exist() -> None:
    for name in load.protocols(Workspace(ROOT)):
        known = load.protocol(Workspace(ROOT), name)
        for spec in headline(Workspace(ROOT), name).values():
            assert known.sources.keys() <= settings(spec, known).keys(), name


@pytest.mark.parametrize(
    "protocol",
    [name for name in load.protocols(Workspace(ROOT)) if load.protocol(Workspace(ROOT), name).headline],
)
def test_no_headline_row_differs_from_its_paper_without_a_reason(protocol: str) -> None:
    """Every setting of a run of the paper's tables is what the paper says, else what its code says, else explained."""
    known = load.protocol(Workspace(ROOT), protocol)
    for dataset, spec in headline(Workspace(ROOT), protocol).items():
        told = beside(spec, known)
        assert len(told) > 35  # the protocol's, and the method's own
        assert {key: one for key, one in told.items() if one.unexplained} == {}, dataset


def test_a_setting_that_is_not_the_papers_stands_out() -> None:
    known = load.protocol(Workspace(ROOT), "fdse")
    spec = headline(Workspace(ROOT), "fdse")["office_caltech10"]
    for block, key, value in (("local", "epochs", 5), ("federation", "rounds", 10)):
        changed = getattr(spec, block).model_copy(update={key: value})
        told = beside(spec.model_copy(update={block: changed}), known)
        assert [name for name, one in told.items() if one.unexplained] == [f"{block}.{key}"]


def test_every_paper_has_headline_rows_on_the_data_sets_of_its_tables() -> None:
    rows = {name: load.protocol(Workspace(ROOT), name).headline for name in load.protocols(Workspace(ROOT))}
    assert {name: one for name, one in rows.items() if one} == {
        "fdse": {"fdse": ["domainnet10", "office_caltech10", "pacs"]},
        "fdse_unseen": {"fdse": ["domainnet10", "office_caltech10"]},
        "fedrd": {"fedrd": ["pacs", "vlcs", "office_home", "mini_domainnet"]},
        "hfedf": {"hfedf": ["pacs", "office_home", "vlcs"]},
        "stablefdg": {"stablefdg": ["pacs", "vlcs", "office_home", "digits_dg", "domainnet"]},
        "stablefdg_multi": {"stablefdg": ["pacs", "vlcs", "office_home"]},
        "stablefdg_n3": {"stablefdg": ["pacs", "office_home"]},
    }


@pytest.mark.parametrize(
    ("method", "dataset", "lr", "params"),
    [
        ("feddyn", "office_caltech10", 0.01, {}),  # alpha 0.1 is the method's default
        ("feddyn", "domainnet10", 0.05, {}),
        ("feddyn", "pacs", 0.1, {"alpha": 0.03}),
        ("moon", "office_caltech10", 0.05, {}),  # mu 1 is the method's default
        ("moon", "domainnet10", 0.1, {"mu": 0.1}),
        ("moon", "pacs", 0.05, {}),
        ("fedprox", "pacs", 0.05, {"mu": 0.0001}),
        ("fedavg", "pacs", 0.05, {}),
        ("fedavg", "office_caltech10", 0.1, {}),
        ("local", "domainnet10", 0.05, {}),
        ("fdse", "office_caltech10", 0.1, {}),  # lambda 0.1, tau 0.5 are the method's defaults
        ("fdse", "pacs", 0.05, {}),
    ],
)
def test_tuned_values_of_fdse_s_tables(
    project: Path, method: str, dataset: str, lr: float, params: dict[str, float]
) -> None:
    told = {"methods": {method: None}, "spec": {"data": {"dataset": dataset}}, "axes": {"seed": [2]}}
    (cell,) = declared(project, "fdse", **told)
    assert (cell.spec.local.lr, cell.spec.method.params) == (lr, params)


@pytest.mark.parametrize(("dataset", "lam"), [("office_caltech10", 0.05), ("pacs", 0.5)])
def test_the_released_lambda_weighs_the_released_term_alone(project: Path, dataset: str, lam: float) -> None:
    methods = {"fdse": None, "released": {"method": {"name": "fdse"}, "preset": "released"}}
    told = {"methods": methods, "spec": {"data": {"dataset": dataset}}, "axes": {"seed": [2]}}
    ours, released = (cell.spec.method.params for cell in declared(project, "fdse", **told))
    assert not {"lam", "consistency"} & ours.keys()  # their defaults: 0.1, Eq. 4 to 7
    assert (released["lam"], released["consistency"]) == (lam, "code_head")


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
