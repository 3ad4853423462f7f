"""The formulas of analyses, by hand."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from fedshift.common.registry import get
from fedshift.evaluations._images import OfClients, of_client
from fedshift.evaluations.activations import divergences
from fedshift.evaluations.base import Kept
from fedshift.evaluations.cka import linear_cka


def test_cka_is_that_of_the_formula_with_kernels() -> None:
    """HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)) with centred Gram matrices; equal up to rotation and scale is 1."""
    x, y = torch.randn(12, 5), torch.randn(12, 3)
    centre = np.eye(12) - 1 / 12
    k, g = (centre @ (part @ part.T).double().numpy() @ centre for part in (x, y))
    hsic = lambda a, b: float((a * b).sum())  # noqa: E731
    assert linear_cka(x, y) == pytest.approx(hsic(k, g) / math.sqrt(hsic(k, k) * hsic(g, g)))
    rotation = torch.linalg.qr(torch.randn(5, 5)).Q
    assert linear_cka(x, 3 * x @ rotation + 2) == pytest.approx(1, abs=1e-6)
    assert math.isnan(linear_cka(x, torch.ones(12, 3)))


def test_filters_diverge_by_means_over_deviations() -> None:
    """Two clients, two filters, of which one never varies: |1 - 4| / sqrt((1 + 3) / 2)."""
    rows = [
        {"place": 1, "client": 0, "mean": [1.0, 5.0], "variance": [1.0, 0.0]},
        {"place": 1, "client": 1, "mean": [4.0, 7.0], "variance": [3.0, 0.0]},
        {"place": 2, "client": 0, "mean": [1.0], "variance": [1.0]},
        {"place": 2, "client": 1, "mean": [1.0], "variance": [2.0]},
    ]
    frame = pd.DataFrame(rows)
    assert divergences(frame) == pytest.approx([3 / math.sqrt(2), 0])
    quantity = get("evaluations", "activations").quantity
    assert (quantity(frame, "low"), quantity(frame, "high")) == pytest.approx((3 / math.sqrt(2), 0))


def test_half_of_the_stages_diverge_by_their_mean() -> None:
    """Five stages that diverge by 1, 2, 4 (low), 6, 9 (high)."""
    gaps = {1: 1.0, 2: 2.0, 3: 4.0, 4: 6.0, 5: 9.0}
    rows = [
        {"place": place, "client": client, "mean": [client * gap], "variance": [1.0]}
        for place, gap in gaps.items()
        for client in (0, 1)
    ]
    quantity, frame = get("evaluations", "activations").quantity, pd.DataFrame(rows)
    assert (quantity(frame, "low"), quantity(frame, "high")) == pytest.approx(((1 + 2 + 4) / 3, (6 + 9) / 2))


def test_a_run_has_the_mean_and_the_least_cka_of_its_pairs() -> None:
    quantity, frame = get("evaluations", "cka").quantity, pd.DataFrame({"cka": [0.9, 0.2, 0.4]})
    assert (quantity(frame, "mean"), quantity(frame, "least")) == pytest.approx((0.5, 0.2))


def test_a_client_without_images_of_a_split_has_none() -> None:
    hp = OfClients(images=4)
    kept = Kept("personalised", "post_train", 0, torch.zeros(2), [(0, "test", torch.arange(5))])
    assert of_client(kept, 1, hp).tolist() == of_client(kept, 0, replace(hp, splits=("val",))).tolist() == []
    assert len(of_client(kept, 0, hp)) == 4
