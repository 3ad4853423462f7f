"""Images, networks and methods from Python: as good as files, and what cannot be repeated is rejected."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import fedshift
from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.federation.method import Client, Method
from tests.conftest import clone
from tests.once import once
from tests.verbs import fedshift as verb

SMALL: dict[str, Any] = {"data.prepare.px": 16, "data.input_px": 16, "model.name": "tiny"}
STRENGTH = 1.0
WEIGHTS = torch.ones(3)


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU())


class Tiny(nn.Sequential):
    """A small network."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(block(3, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_classes))


class Scaled(Method):
    """FedAvg with a scaled loss."""

    name = "scaled"

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        return STRENGTH * C.criterion(C.model(x).logits, y)


class Bound(Method):
    name = "bound"

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        return WEIGHTS.sum() * C.criterion(C.model(x).logits, y)


class Headless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(4, 7)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return once(tmp_path_factory, "own", lambda root: clone(digits, root))


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Path) -> Any:
    """A project, which the registry forgets afterwards."""
    yield clone(digits, tmp_path)
    monkeypatch.setattr(registry, "_project", Path())
    registry.forget()


def noise(count: int = 60) -> tuple[Any, Any, Any]:
    """Images [n, 16, 16, 3], labels, domains: learnable, as class 1 is brighter."""
    rng = np.random.default_rng(0)
    labels, domains = np.arange(count) % 2, np.repeat(["north", "south", "west"], count // 3)
    images = rng.integers(0, 128, (count, 16, 16, 3)) + 120 * labels[:, None, None, None]
    return images.astype(np.uint8), labels, domains


def test_arrays_are_a_release_like_any_other(here: Path) -> None:
    images, labels, domains = noise()
    name = fedshift.dataset(images, labels, domains, name="noise", classes=["dark", "light"], root=here)
    assert name == "folder:noise"
    data = fedshift.load_data(name, "west", root=here, settings={"data.prepare.px": 16, "data.input_px": 16})
    assert data.classes == ["dark", "light"] and len(data.images) == 60
    for domain in ("north", "south", "west"):
        for label, cls in enumerate(data.classes):
            wanted = images[(domains == domain) & (labels == label)]
            np.testing.assert_array_equal(
                np.sort(data.of(domain=domain, **{"class": cls}), 0), np.sort(wanted, 0)
            )
    assert (
        fedshift.dataset(images, labels, domains, name="noise", classes=["dark", "light"], root=here) == name
    )
    with pytest.raises(FedshiftError, match="contains other images"):
        fedshift.dataset(255 - images, labels, domains, name="noise", classes=["dark", "light"], root=here)


def test_all_forms_of_images_are_the_same_release(here: Path) -> None:
    images, labels, domains = noise(12)
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2)
    name = fedshift.dataset(images, labels, domains, name="same", root=here)
    each = {
        domain: TensorDataset(tensors[domains == domain], torch.from_numpy(labels[domains == domain]))
        for domain in ("north", "south", "west")
    }
    for given in (
        (tensors, torch.from_numpy(labels), domains.tolist()),
        (tensors / 255, labels.tolist(), domains),
        ([Image.fromarray(image) for image in images], [str(label) for label in labels], domains),
        (TensorDataset(tensors, torch.from_numpy(labels)), None, domains),
        (each,),
    ):
        assert fedshift.dataset(*given, name="same", root=here) == name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": [0]}, "12 images, 1 labels, 12 domains"),
        ({"domains": None}, "no domains are given"),
        ({"labels": None}, "no labels are given"),
        ({"labels": [0.5] * 12}, "neither names nor whole numbers"),
        ({"classes": ["one"]}, "label 1 with 1 classes"),
        ({"domains": ["a/b"] * 12}, "domain 'a/b' cannot name a folder"),
        ({"images": np.zeros((12, 4, 4, 2), np.uint8)}, r"image 0: has the shape \(4, 4, 2\)"),
        ({"images": np.full((12, 4, 4), 7)}, "image 0: has values of type int64"),
        ({"images": np.full((12, 4, 4), np.nan)}, "image 0: has values of type float64 from nan"),
        ({"images": [], "labels": [], "domains": []}, "there are no images"),
    ],
)
def test_what_is_no_data_set_is_said(change: dict[str, Any], said: str, here: Path) -> None:
    images, labels, domains = noise(12)
    given = {"images": images, "labels": labels, "domains": domains} | change
    with pytest.raises(FedshiftError, match=said):
        fedshift.dataset(**given, name="bad", root=here)
    assert not [*(here / "data").glob("raw/folder/*")]


def test_a_registered_class_trains_in_every_process(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fedshift.register(model=Tiny, root=here) == "tiny"
    assert fedshift.register(method=Scaled, root=here) == "scaled"
    images, labels, domains = noise()
    name = fedshift.dataset(images, labels, domains, name="noise", root=here)
    run = fedshift.run("scaled", name, "west", rounds=2, settings=SMALL, root=here)
    assert run.spec.model.name == "tiny"
    assert len(run.model().networks) == 1
    listed = verb(here, "list", "methods").stdout
    assert "scaled" in listed and "FedAvg with a scaled loss" in listed
    assert "STRENGTH = 1.0" in (here / "own" / "methods" / "scaled.py").read_text()
    fedshift.register(method=Scaled, root=here)
    assert fedshift.run("scaled", name, "west", rounds=2, settings=SMALL, root=here) == run
    monkeypatch.setattr(sys.modules[__name__], "STRENGTH", 0.5)
    fedshift.register(method=Scaled, root=here)
    other = fedshift.run("scaled", name, "west", rounds=2, settings=SMALL, root=here)
    assert other.digest != run.digest and other.metrics["value"].tolist() != run.metrics["value"].tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": Bound}, "it uses 'WEIGHTS', a Tensor"),
        ({"method": Tiny}, "is not a class of that kind"),
        ({"method": Scaled, "model": Tiny}, "takes one class"),
        ({"method": type("FedAvg", (Method,), {"name": "fedavg"})}, "'fedavg' is a name of fedshift's own"),
        ({"method": type("Nameless", (Method,), {})}, "has the name ''"),
    ],
)
def test_what_cannot_be_repeated_is_rejected(given: dict[str, Any], said: str, here: Path) -> None:
    with pytest.raises(FedshiftError, match=said):
        fedshift.register(**given, root=here)


def test_a_file_written_by_hand_is_not_replaced(here: Path) -> None:
    (file,) = (
        path
        for path in map(Path, verb(here, "new", "method", "scaled").stdout.split())
        if "methods" in path.parts
    )
    text = (here / file).read_text()
    with pytest.raises(FedshiftError, match="written by hand"):
        fedshift.register(method=Scaled, root=here)
    assert (here / file).read_text() == text


def test_a_network_without_a_head_is_named(here: Path) -> None:
    fedshift.register(model=Headless, root=here)
    with pytest.raises(FedshiftError, match=r"its last nn\.Linear must have \d+ outputs: one of 7"):
        fedshift.run("fedavg", "digits", "ink", rounds=1, settings={"model.name": "headless"}, root=here)
