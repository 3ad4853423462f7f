"""Which round was best so far by validation, and the weights of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

DIGITS = 11  # accuracies that are equal must tie, whatever the order of the sum


class Selection:
    """The first and the later of the rounds with the highest validation accuracy, clients weighted by
    training samples.

    validation: client -> accuracy of the round under way, of the reported model.
    value: tie rule ("first", "later") -> the highest accuracy so far.
    round: tie rule -> the round of it.
    best_weights: tie rule -> name -> weights of that round.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.validation: dict[int, float] = {}
        self.value: dict[str, float] = {}
        self.round: dict[str, int] = {}
        self.best_weights: dict[str, dict[str, Tensor]] = {}

    def consider(self, finished: int, sizes: dict[int, int], weights: dict[str, Tensor]) -> None:
        """Compare the round that has just been evaluated; sizes: client -> training samples; weights are
        copied where it wins.
        """
        accuracy, self.validation = self.validation, {}
        if not accuracy:
            return
        value = round(sum(sizes[k] * accuracy[k] for k in accuracy) / sum(sizes[k] for k in accuracy), DIGITS)
        for tie in ("first", "later"):
            best = self.value.get(tie)
            if best is None or value > best or (value == best and tie == "later"):
                self.value[tie], self.round[tie] = value, finished
                self.best_weights[tie] = {name: tensor.clone() for name, tensor in weights.items()}

    def state_dict(self) -> dict[str, Any]:
        """Nested by name, between two rounds."""
        return {
            "value": dict(self.value), "round": dict(self.round),
            "best_weights": {tie: dict(weights) for tie, weights in self.best_weights.items()},
        }  # fmt: skip

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.value, self.round = dict(saved.get("value", {})), dict(saved.get("round", {}))
        self.best_weights = {
            tie: {name: tensor.to(self._device) for name, tensor in weights.items()}
            for tie, weights in saved.get("best_weights", {}).items()
        }
