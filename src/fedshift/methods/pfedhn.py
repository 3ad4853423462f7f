"""pFedHN: a hypernetwork makes every client's model, one server step after each client (Shamsian et al. 2021,
Algorithm 1).

The settings are those of hFedF's comparison:

- In every round all clients come in random order (the original samples one client per step).
- The hypernetwork is hFedF's, with hidden layers of 50 instead of 100.
- Local training is hFedF's, with the rates of its Table 10.

The server's optimiser is the released code's: SGD with momentum .9, its gradient clipped to norm 50. The
paper's network has no batch normalisation; here its statistics move towards each client's by 1 / N.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from fedshift.federation.optimizer import Rule
from fedshift.federation.server import Server
from fedshift.methods.hfedf.hypernet import Generated


@dataclass(frozen=True)
class Params:
    """optimizer, lr, momentum (SGD's), weight_decay, clip: of the server; embedding_dim: by default floor(1 +
    N / 4); hidden, head_init: as in hFedF.
    """

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 1e-2
    momentum: float = 0.9
    weight_decay: float = 1e-3
    clip: float | None = 50.0
    embedding_dim: Annotated[int, Field(ge=1)] | None = None
    hidden: Annotated[int, Field(ge=0)] = 4
    head_init: Literal["default", "fanin"] = "default"


class PFedHN(Generated):
    """theta, nu_i -= lr (d phi_i / d (theta, nu_i))^T (phi_i - phi~_i), client by client."""

    name = "pfedhn"
    Params = Params

    def round(self, S: Server, train: Callable[[Sequence[int]], None]) -> None:
        for k in S.shuffled():
            train([k])

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        hp, B = self.hp, S.layout.B
        rule = Rule(hp.optimizer, hp.lr, hp.momentum, hp.weight_decay, hp.clip)
        S.descend("h", self.pulled(S, rows).combined(p), rule)
        S.row[B] = S.row[B].lerp(rows[0, B], 1 / S.N)
