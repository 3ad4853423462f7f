"""StableFDG: its limits, its counts, and what a protocol asks of it."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.common.registry import get
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.batches import participants
from fedshift.federation.layout import initial
from fedshift.federation.loop import Federation
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, images, method, small, spec
from tests.conftest import ROOT
from tests.methods.stablefdg_toys import cost


def test_everything_off_is_fedavg_bit_for_bit() -> None:
    run = spec(
        local={"momentum": 0.9, "optimizer_state": "persist", "clip": 5.0}, federation={"weights": "uniform"}
    )
    ours = finish(small(run, method("stablefdg", p=0.0, attention="none")))
    fedavg = finish(small(run, method("fedavg")))
    assert ours.state.row.equal(fedavg.state.row)
    assert cost(ours, "bytes_up") == cost(fedavg, "bytes_up")


def test_clients_weigh_the_same() -> None:
    samples, clients, target = images(2)
    clients[0] = type(clients[0])(clients[0].train[:6], clients[0].val, clients[0].test)
    model = get("models", "digits_cnn")
    run = spec(federation={"rounds": 1})
    made = Federation(run, method("stablefdg"), lambda: model(2, 32), samples, clients, target)
    finish(made)
    assert made.server.p.tolist() == [0.5, 0.5]


def test_central_training_is_one_client_with_all_data() -> None:
    made = finish(small(spec(), method("stablefdg", centralized=True)))
    assert len(made.clients) == 1
    assert len(made.clients[0].train) == 36
    assert made.method.optimizer_state == "persist"


@pytest.mark.parametrize(
    ("hp", "parameters"),
    [
        ({}, 11_214_467),
        ({"dead_v": True}, 11_229_859),
        ({"attention": "none"}, 11_180_103),
        ({"attention": "convolution"}, 11_180_103 + 3_584 + 30_841),
    ],
)
def test_parameters_of_resnet18(hp: dict[str, Any], parameters: int) -> None:
    model = method("stablefdg", **hp).model(get("models", "resnet18")(7, 64))
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model.feature_dim == model.head.in_features


@pytest.mark.parametrize("name", ["digits_cnn", "hfedf_cnn", "resnet18"])
def test_all_else_starts_as_in_fedavg(name: str) -> None:
    kind = get("models", name)
    _, layout, row = initial(lambda: kind(7, 32), 3)
    _, ours, our_row = initial(lambda: method("stablefdg").model(kind(7, 32)), 3)
    mine, theirs = ours.named(our_row), layout.named(row)
    assert set(theirs) <= set(mine)
    assert all(mine[key].equal(value) for key, value in theirs.items() if not key.startswith("head"))


def test_images_without_contrast_train_to_finite_weights() -> None:
    samples, clients, target = images(3)
    samples.pixels.fill_(100)
    model = get("models", "digits_cnn")
    made = Federation(spec(), method("stablefdg", p=1.0), lambda: model(2, 32), samples, clients, target)
    assert finish(made).state.row.isfinite().all()


def test_a_batch_of_one_without_batch_normalisation() -> None:
    samples, clients, target = images(3)
    model = get("models", "hfedf_cnn")
    run = spec(local={"batch": 11, "lr": 0.01})  # 12 images: 11 and 1
    for shift in ("seeds", "random", "official"):
        chosen = method("stablefdg", p=1.0, shift=shift)
        made = Federation(run, chosen, lambda: model(2, 32), samples, clients, target)
        assert finish(made).state.row.isfinite().all()


def test_a_client_with_one_image() -> None:
    samples, clients, target = images(3)
    clients[0] = type(clients[0])(clients[0].train[:1], clients[0].val, clients[0].test)
    for name in ("digits_cnn", "hfedf_cnn"):
        model = get("models", name)
        run = spec(local={"lr": 0.01})
        made = Federation(
            run, method("stablefdg"), lambda model=model: model(2, 32), samples, clients, target
        )
        assert finish(made).state.row.isfinite().all()


def test_the_protocol_and_the_released_preset() -> None:
    uses = expand(Workspace(ROOT), load(Workspace(ROOT), "stablefdg/table1a"))
    cells = {cell.label: cell.spec for cell in uses if cell.axes["data.dataset"] == "pacs"}
    ours, released = cells["stablefdg"], cells["released"]
    assert len(participants(30, ours.federation.participation, 0, 0)) == 10
    assert ours.local.schedule.kind == "cosine"
    assert ours.method.params == {}
    assert released.local.schedule.kind == "constant"
    assert released.method.params == {
        "sigma": "official", "shift": "official", "singletons": "cross", "share_from_round": 1, "dead_v": True
    }  # fmt: skip
    assert released.local.model_copy(update={"schedule": ours.local.schedule}) == ours.local
