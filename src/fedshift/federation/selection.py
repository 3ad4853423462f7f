"""Which round was best so far by validation, and the weights of it."""

from __future__ import annotations

from torch import Tensor

DIGITS = 11  # accuracies that are equal must tie, whatever the order of the sum


class Selection:
    """The first and the later of the rounds with the highest validation accuracy, clients weighted by training samples.

    validation: client -> accuracy of the round under way, of the reported model
    value: tie rule ("first", "later") -> highest accuracy so far
    round: tie rule -> the round that had it
    kept: "<tie rule>/<name>" -> weights of that round
    """

    def __init__(self) -> None:
        self.validation: dict[int, float] = {}
        self.value: dict[str, float] = {}
        self.round: dict[str, int] = {}
        self.kept: dict[str, Tensor] = {}

    def consider(self, finished: int, sizes: dict[int, int], weights: dict[str, Tensor]) -> None:
        """Compare the round that has just been evaluated; sizes: client -> training samples; weights are copied where it wins."""
        accuracy, self.validation = self.validation, {}
        if not accuracy:
            return
        value = round(sum(sizes[k] * accuracy[k] for k in accuracy) / sum(sizes[k] for k in accuracy), DIGITS)
        for tie in ("first", "later"):
            best = self.value.get(tie)
            if best is None or value > best or (value == best and tie == "later"):
                self.value[tie], self.round[tie] = value, finished
                self.kept |= {f"{tie}/{name}": tensor.clone() for name, tensor in weights.items()}

    def weights(self, tie: str) -> dict[str, Tensor]:
        """The kept weights of the best round by a tie rule."""
        prefix = f"{tie}/"
        return {
            name.removeprefix(prefix): tensor for name, tensor in self.kept.items() if name.startswith(prefix)
        }
