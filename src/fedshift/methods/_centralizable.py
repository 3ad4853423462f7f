"""Methods that their papers also train centrally."""

from typing import Any

from fedshift.federation.method import Method


class Centralizable(Method):
    """With `centralized`: one model on the union of all clients' data, with one optimiser for the run."""

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        if self.hp.centralized:
            self.clients, self.optimizer_state = "pooled", "persist"
