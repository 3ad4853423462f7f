"""FDSE: shared layers extract features, personal layers erase the domain's shift (Wang et al., CVPR 2025).

Every layer of a network becomes a block (methods/fdse/block.py): a shared extractor (DFE) and a personal,
cheap eraser (DSE). Clients train with a term that pulls the eraser's output towards the global statistics.
The server moves the shared tensors in the least conflicting direction and mixes the personal ones by
similarity.

Deviations:

- Eq. 8 is solved over the simplex; as published, u = 0 is optimal.
- Sec. 4.3.1 names "DSE modules and heads" as the shared tensors; DFE is meant.
- The term of Eq. 6 starts in the second round, as in the released code. Before that, the received statistics
  are those of the start.
- Eq. 5's gamma is not given. It is 0.9 on the old value, as in the released code.
- Clients without an update in a unit are not part of its Eq. 8; a zero vector maps to itself in Eq. 9. The
  paper defines neither.
- In released code, units are single tensors, Eq. 6 has other forms (released.py), and blocks differ
  (Decomposition). Presets: `released_v1`, the first release, and `released`.
- `unseen_dse` defines the test on a held-out domain, which the paper does not define.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.method import Client, Index, Layout, Method, Model, Server, mean
from fedshift.methods.fdse.block import Decomposition, decompose
from fedshift.methods.fdse.consensus import consensus, consensus_factors, inner_products, similarity
from fedshift.methods.fdse.consistency import Alignment
from fedshift.methods.fdse.released import FirstRelease, SecondRelease
from fedshift.models.layers.blocks import channels

FORMS = {"code_v1": FirstRelease, "code_head": SecondRelease}  # of Eq. 6, in released code


@dataclass(frozen=True)
class Params(Decomposition):
    """Parameters of the blocks and of the federation.

    `lam`: weight of the consistency term.
    `beta`: growth of this weight with depth.
    `tau`: temperature of the similarity.
    `consensus`: unit of Eq. 8, or none: the plain weighted mean.
    `similarity`: unit of Eq. 9; mean: average the personal tensors; none: every client keeps its own.
    `consistency`: the form of Eq. 6, or none.
    `consistency_from_round`: first round of the term, counted from 1.
    `unseen_dse`: personal tensors and statistics for a domain that no client has.
    """

    lam: float = 0.1
    beta: float = 0.001
    tau: float = 0.5
    consensus: Literal["layer", "tensor", "none"] = "layer"
    similarity: Literal["module", "tensor", "mean", "none"] = "module"
    consistency: Literal["paper", "code_v1", "code_head", "none"] = "paper"
    consistency_from_round: int = 2
    unseen_dse: Literal["mean", "init"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau <= 0 or self.lam < 0:
            raise ValueError(f"tau must be positive and lam not negative, not {self.tau} and {self.lam}")


class FDSE(Method):
    """DFE, BN_DFE and head are shared; DSE layers, affine part of BN_DSE and bias personal; statistics of
    BN_DSE local.
    """

    name = "fdse"
    steady = "round"
    version = 2
    weighs = True
    Params = Params
    logs = {
        "task_gradient": "norm of the task's gradient at the client's first step",
        "consistency_gradient": "the same of lambda L_con (Eq. 4-7)",
        "consensus": "factors of the clients' updates, by layer (Eq. 8)",
        "similarity": "of each client: weights of all, by layer (Eq. 9)",
    }

    def model(self, model: Model) -> Model:
        if not decompose(model, self.hp):
            cure = "Choose one whose blocks say `decomposes`: alexnet_bn, digits_cnn, resnet50, vit_small."
            raise FedshiftError("method fdse", f"'{model.name}' has no layer to decompose", cure)
        if self.hp.padding == "head":
            channels(model)  # fails if a map is smaller than a kernel; spec/resolve.py reports it
        return model

    def personal(self, L: Layout) -> Index:
        return L.role("dse") & L.trainable

    def local(self, L: Layout) -> Index:
        return L.role("dse") & ~L.trainable

    def begin(self, C: Client) -> None:
        C.tmp.alignment = FORMS.get(self.hp.consistency, Alignment)(C.model, self.hp.beta)

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        """The task's loss plus lam L_con (Eq. 4-7)."""
        task, hp = super().loss(C, x, y), self.hp
        if hp.lam == 0 or hp.consistency == "none" or C.t + 1 < hp.consistency_from_round:
            return task
        term = hp.lam * C.tmp.alignment.term()
        if C.steps == 0 and (C.t < 20 or C.t % 10 == 0):  # to log it costs a backward pass more
            with C.worker.passes.counted(False):
                C.network.backward(term, retain_graph=True)
            C.tmp.term_gradient = C.network.g.clone()
        return task + term

    def grad(self, C: Client, g: Tensor) -> None:
        if (term := vars(C.tmp).pop("term_gradient", None)) is not None:
            C.log("task_gradient", (g - term).norm())
            C.log("consistency_gradient", term.norm())

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        """Eq. 8 on every shared layer, Eq. 9 on every personal one; statistics are averaged uniformly."""
        hp, equal, factors, mixing = self.hp, torch.full_like(p, 1 / len(p)), [], []
        for name, at in S.layers(S.shared, hp.consensus).items():
            if hp.consensus == "none":
                S.row[at] = mean(rows[:, at], p)
                continue
            updates = rows[:, at] - S.row[at]
            products = inner_products(updates, f"round {S.t + 1}, layer '{name}'", S.active)
            factors.append(consensus_factors(products))
            S.row[at] += consensus(updates, factors[-1])
        for at in S.layers(S.personal, hp.similarity).values():
            if hp.similarity == "mean":
                rows[:, at] = mean(rows[:, at], equal)
            elif hp.similarity != "none":
                mixing.append(similarity(rows[:, at], hp.tau))
                rows[:, at] = mixing[-1] @ rows[:, at]
        S.row[S.buffers] = mean(rows[:, S.buffers], equal)
        if factors:
            S.log("consensus", torch.stack(factors, 1), "K layer")
        if mixing:
            S.log("similarity", torch.stack(mixing, 1), "K layer K")

    def unseen(self, S: Server) -> Tensor:
        """Personal tensors and BN_DSE statistics averaged over the clients that have trained, or those of the
        start.

        The server's copies of these entries are never written, so they are the start.
        """
        row = S.row.clone()
        if self.hp.unseen_dse == "mean":
            for index in (S.personal, S.local):
                row[index.at] = S.peek(index)[S.trained].mean(0)
        return row[None]
