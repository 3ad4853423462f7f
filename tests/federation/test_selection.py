"""Which round is best: validation accuracies weighted by training samples, not by clients."""

from __future__ import annotations

import pytest
import torch

from fedshift.federation.evaluator import Selection


def test_accuracies_are_weighted_by_training_samples() -> None:
    """Clients of 90 and 10: the round that is good for the large one wins, though the plain mean prefers the other."""
    selection = Selection(torch.device("cpu"))
    for finished, accuracies in enumerate([{0: 0.8, 1: 0.1}, {0: 0.5, 1: 1.0}]):
        selection.validation = dict(accuracies)
        selection.consider(finished, {0: 90, 1: 10}, {"row": torch.tensor([float(finished)])})
    for tie in ("first", "later"):
        assert selection.round[tie] == 0
        assert selection.value[tie] == pytest.approx(0.73)
        assert selection.best_weights[tie]["row"].tolist() == [0.0]


def test_the_first_and_the_later_of_equal_rounds() -> None:
    """Equal but for the order of the sum; clients without validation samples do not count."""
    selection = Selection(torch.device("cpu"))
    for finished, accuracies in enumerate(
        [{0: 0.2, 1: 0.5}, {0: 0.5, 1: 0.4}, {0: 0.4, 1: 0.45}, {0: 0.5, 1: 0.4}]
    ):
        selection.validation = dict(accuracies)
        selection.consider(finished, {0: 10, 1: 20, 2: 70}, {"row": torch.tensor([float(finished)])})
    assert selection.round == {"first": 1, "later": 3}
    assert [selection.best_weights[tie]["row"].item() for tie in ("first", "later")] == [1.0, 3.0]
    selection.consider(4, {0: 10, 1: 20}, {})
    assert selection.round == {"first": 1, "later": 3}
