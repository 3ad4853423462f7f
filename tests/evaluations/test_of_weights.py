"""Analyses of kept weights: each number against a plain retelling."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.evaluations.base import Kept, Trained
from fedshift.evaluations.cka import linear_cka
from fedshift.testing.toys import spec
from tests.evaluations.test_contract import restored, table


@pytest.fixture(scope="module")
def of_clients(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """FedAvg of two rounds with its clients' models after training, at a rate that tells them apart."""
    run = spec(federation={"rounds": 2}, evaluation={"keep": "clients"}, local={"lr": 0.3})
    return restored("fedavg", tmp_path_factory.mktemp("run"), run)[1]


# Each analysis, told once more from the run's models, image by image, as plainly as it can be.


def image(run: Trained, at: int) -> Tensor:
    return run.samples.evaluate(run.samples.take(torch.tensor([at]))[0])


def features_of(run: Trained, kept: Kept, positions: list[int]) -> Tensor:
    """[n, F] of single images, each in a batch of its own."""
    model = run.network.bind(kept.row).model.eval()
    with torch.no_grad():
        return torch.stack([model(image(run, at)).feature[0] for at in positions])


def of_each_client(run: Trained) -> dict[int, tuple[Kept, list[int]]]:
    """Each client's model after training and its test images."""
    found = {}
    for kept in run.models():
        if kept.stage == "post_train":
            for client, split, index in kept.sets:
                if split == "test":
                    found[client] = kept, index.tolist()
    return found


def retold_distances(run: Trained) -> list[float]:
    points = []
    domains = run.domains()
    for kept, positions in of_each_client(run).values():
        for at, feature in zip(positions, features_of(run, kept, positions), strict=True):
            points.append((feature / feature.norm(), int(run.samples.labels[at]), domains[at]))
    gaps: dict[str, list[float]] = {"inter": [], "intra": [], "domains": []}
    for (a, la, da), (b, lb, db) in itertools.combinations(points, 2):
        gap = float((a - b).norm())
        gaps["intra" if la == lb else "inter"].append(gap)
        if la == lb and da != db:
            gaps["domains"].append(gap)
    return [sum(values) / len(values) for values in gaps.values()]


def retold_cka(run: Trained) -> list[float]:
    every = of_each_client(run)
    images = [at for _, positions in every.values() for at in positions]
    features = {k: features_of(run, kept, images) for k, (kept, _) in every.items()}
    return [linear_cka(features[i], features[j]) for i, j in itertools.combinations(features, 2)]


def retold_spread(run: Trained) -> list[float]:
    rows = [dict(run.layout.named(kept.row)) for kept, _ in of_each_client(run).values()]
    layers: dict[str, list[float]] = {}
    for entry in run.layout.entries:
        if entry.kind not in ("bn_statistic", "statistic"):
            values = np.stack([row[entry.name].numpy().ravel() for row in rows]).astype(float)
            layers.setdefault(entry.layer, []).extend(values.std(0))
    return [float(np.mean(values)) for values in layers.values()]


def retold_activations(run: Trained) -> list[float]:
    """The mean responses of stage 1, client by client, then their variances."""
    means, variances = [], []
    for kept in (kept for kept, _ in of_each_client(run).values()):
        model = run.network.bind(kept.row).model.eval()
        (client,) = {client for client, *_ in kept.sets}
        sets = [index for _, split, index in kept.sets if split in ("val", "test")]
        assert client >= 0
        with torch.no_grad():
            maps = [
                model.body(image(run, at), stop="stage1") for at in torch.cat(sets).sort().values.tolist()
            ]
        highest = torch.stack([one[0].flatten(1).amax(1) for one in maps])
        means += highest.mean(0).tolist()
        variances += (highest - highest.mean(0)).square().mean(0).tolist()
    return means + variances


TRAINED = {"stage": "post_train"}
Analysis = tuple[dict[str, Any], Callable[[pd.DataFrame], Any], Callable[[Trained], list[float]]]
ANALYSES: dict[str, Analysis] = {
    "distances": (TRAINED, lambda frame: [*frame[["inter", "intra", "domains"]].iloc[0]], retold_distances),
    "cka": (TRAINED, lambda frame: [*frame["cka"]], retold_cka),
    "spread": (TRAINED, lambda frame: [*frame["deviation"]], retold_spread),
    "activations": (TRAINED | {"stages": ["stage1"]}, lambda frame: np.concatenate([*frame["mean"], *frame["variance"]]), retold_activations),
}  # fmt: skip


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_is_what_the_models_say(name: str, of_clients: Trained) -> None:
    chosen, numbers, retold = ANALYSES[name]
    found = numbers(table(name, of_clients, **chosen).to_pandas())
    assert found == pytest.approx(retold(of_clients), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("name", "part"), [("spread", "layer"), ("activations", "layer")])
def test_places_count_from_the_input(name: str, part: str, of_clients: Trained) -> None:
    places = table(name, of_clients, **TRAINED).to_pandas().drop_duplicates(part)["place"]
    assert [*places] == [*range(1, len(places) + 1)]


@pytest.mark.parametrize("name", ["distances", "tsne"])
def test_clients_without_an_image_are_refused(name: str, of_clients: Trained) -> None:
    empty = [
        kept._replace(sets=[(client, split, index[:0]) for client, split, index in kept.sets])
        for kept in of_clients.models()
    ]
    with pytest.raises(FedshiftError, match="no client has an image in test or validation"):
        table(name, replace(of_clients, models=lambda: iter(empty)))


def test_a_map_has_every_image_once_and_keeps_neighbours(of_clients: Trained) -> None:
    """Every test image with its class; one's nearest on the map is nearer than most in the features it was made of."""
    frame = table("tsne", of_clients, stage="post_train").to_pandas()
    samples = torch.tensor(frame["sample"].to_numpy().astype("int64"))
    assert frame["label"].tolist() == of_clients.samples.labels[samples].tolist()
    assert {*zip(frame["label"], frame["class"], strict=True)} == {(0, "dark"), (1, "bright")}
    found = of_each_client(of_clients)
    assert sorted(frame["sample"]) == sorted(at for _, positions in found.values() for at in positions)
    unit = torch.cat([features_of(of_clients, kept, positions) for kept, positions in found.values()])
    apart = torch.cdist(unit / unit.norm(dim=1, keepdim=True), unit / unit.norm(dim=1, keepdim=True))
    shown = torch.tensor(frame[["x", "y"]].to_numpy())
    near = (torch.cdist(shown, shown) + torch.eye(len(shown)) * 1e9).argmin(1)
    ranks = apart.argsort(1).argsort(1)[torch.arange(len(near)), near]
    assert ranks.float().mean() < len(near) / 4
    few = table("tsne", of_clients, stage="post_train", images=2).to_pandas()
    assert few.groupby("client").size().to_dict() == {0: 2, 1: 2, 2: 2}
