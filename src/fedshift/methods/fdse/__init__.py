"""FDSE: shared layers extract, personal ones erase the domain's shift (Wang et al., CVPR 2025).

Every layer of a network becomes a block (methods/fdse/block.py) of a shared extractor (DFE) and a personal,
cheap eraser (DSE). Clients train with a term that pulls the eraser's output towards the global statistics;
the server moves the shared tensors by the least conflicting direction and mixes the personal ones by
similarity.

Deviations. Eq. 8 is solved over the simplex (as printed, u = 0 is optimal). Sec. 4.3.1 says "DSE modules and
heads" of the shared tensors: DFE is meant. The term of Eq. 6 starts in the second round (released code;
before, the statistics received are those of the start). Eq. 5's gamma is not printed: 0.9 on the old value,
as in that code. Clients without any update in a unit stay out of its
Eq. 8, a zero row keeps itself in Eq. 9 (both undefined in the paper). Released code: units are single
tensors, Eq. 6 takes other forms (_fdse_released.py), blocks differ (Decomposition): presets `released_v1`,
the first release, and `released`. Unseen domain, undefined in the paper: `unseen_dse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.client import Client
from fedshift.federation.diagnostics import Diagnostic
from fedshift.federation.layout import Index, Layout
from fedshift.federation.method import Method
from fedshift.federation.server import Server, mean
from fedshift.methods.fdse.block import Decomposition, decompose
from fedshift.methods.fdse.consensus import all_finite, consensus, consensus_factors, similarity
from fedshift.methods.fdse.consistency import Alignment
from fedshift.models.base import Model
from fedshift.models.layers.insert import channels

# Rounds at the start that record the gradients' norms, for a backward pass more; later every tenth does.
MEASURED_ROUNDS = 20


@dataclass(frozen=True)
class Params(Decomposition):
    """And of the federation.

    lam: weight of the consistency term; beta: its growth with depth; tau: temperature of the similarity;
    consensus: unit of Eq. 8, or none: the plain weighted mean; similarity: unit of Eq. 9, or none: every
    client keeps its own, or mean; consistency: the form of Eq. 6, or none; consistency_from_round: counted
    from 1; unseen_dse: personal tensors and statistics for a domain that no client has.
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


class Parts:
    """Where the units of Eq. 8 and Eq. 9 and the shared statistics lie in a row: computed once, since a
    search reads every position.
    """

    def __init__(self, S: Server, hp: Params) -> None:
        L, device = S.layout, S.row.device

        def cut(index: Index, unit: str) -> list[slice | Tensor]:
            if unit == "tensor":
                inside = index.mask
                return [entry.slice for entry in L.entries if inside[entry.offset]]
            return [part.to(device).at for part in L.units(index)]

        self.shared = cut(S.shared & L.trainable, hp.consensus)
        firsts = [at.start if isinstance(at, slice) else int(at[0]) for at in self.shared]
        entries = [next(entry for entry in L.entries if entry.slice.stop > first) for first in firsts]
        self.names = [entry.name if hp.consensus == "tensor" else entry.unit for entry in entries]
        self.personal = cut(S.personal, hp.similarity)
        self.statistics = (S.shared & ~L.trainable).to(device).at


class FDSE(Method):
    """S: DFE layers, BN_DFE, head: shared. P: DSE layers, affine BN_DSE, bias: personal. Statistics of
    BN_DSE: local.
    """

    name = "fdse"
    version = 2
    weighs = True
    Params = Params
    diagnostics = (
        Diagnostic("task_gradient", "norm of the task's gradient at the client's first step"),
        Diagnostic("consistency_gradient", "the same of lambda L_con (Eq. 4-7)"),
        Diagnostic("consensus", "factors of the clients' updates, by unit (Eq. 8)", ("K", "units"), "server"),
        Diagnostic(
            "similarity", "of each client: weights of all, by unit (Eq. 9)", ("K", "units", "K"), "server"
        ),
    )
    waits = 1  # Eq. 8 is solved on the host

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        self._parts: Parts | None = None

    def model(self, model: Model) -> Model:
        if not decompose(model, self.hp):
            cure = "Choose one whose blocks say `decomposes`: alexnet_bn, digits_cnn, resnet50, vit_small."
            raise FedshiftError("method fdse", f"'{model.name}' has no layer to decompose", cure)
        if self.hp.padding == "head":
            channels(model)  # fails where a map is smaller than a kernel; spec/resolve.py says so
        return model

    def personal(self, L: Layout) -> Index:
        return L.role("dse") & L.trainable

    def local(self, L: Layout) -> Index:
        return L.role("dse") & ~L.trainable

    def begin(self, C: Client) -> None:
        C.tmp.alignment = Alignment(C.model, self.hp.beta)

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        task = super().loss(C, x, y)
        hp, alignment = self.hp, C.tmp.alignment
        if hp.lam == 0 or hp.consistency == "none" or C.t + 1 < hp.consistency_from_round:
            return task
        forms = {
            "paper": alignment.term,
            "code_v1": alignment.first_release,
            "code_head": alignment.second_release,
        }
        term = hp.lam * forms[hp.consistency]()
        if C.steps == 0 and (C.t < MEASURED_ROUNDS or C.t % 10 == 0):
            C.tmp.term_gradient = C.gradient(term)
        return task + term

    def grad(self, C: Client, g: Tensor) -> None:
        """Record the norms of the two gradients that `g` is the sum of, each over all trainable entries, at
        the client's first step.
        """
        term = C.tmp.__dict__.pop("term_gradient", None)
        if term is not None:
            C.record("consistency_gradient", term.norm())
            C.record("task_gradient", (g - term).norm())

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        self._parts = parts = self._parts or Parts(S, self.hp)
        equal = torch.full_like(p, 1 / len(p))
        factors = [] if self.hp.consensus == "none" else self._factors(S, rows, parts)
        for place, at in enumerate(parts.shared):  # S.row is still what was broadcast
            if factors:
                S.row[at] += consensus(rows[:, at] - S.row[at], factors[place])
            else:
                S.row[at] = mean(rows[:, at], p)
        mixing = []
        for at in parts.personal:
            if self.hp.similarity == "mean":
                rows[:, at] = mean(rows[:, at], equal)
            elif self.hp.similarity != "none":
                mixing.append(similarity(rows[:, at], self.hp.tau))
                rows[:, at] = mixing[-1] @ rows[:, at]
        if mixing:
            S.record("similarity", torch.stack(mixing, 1))
        S.row[parts.statistics] = mean(rows[:, parts.statistics], equal)

    def _factors(self, S: Server, rows: Tensor, parts: Parts) -> list[Tensor]:
        """Of all updates of each unit, from their inner products, on the CPU: the one time that the server
        waits for the device.
        """
        updates = (rows[:, at] - S.row[at] for at in parts.shared)
        grams = list(torch.stack([update @ update.T for update in updates]).double().cpu())
        for name, gram in zip(parts.names, grams, strict=True):
            all_finite(gram, f"round {S.t + 1}, unit '{name}'", S.active)
        factors = [consensus_factors(gram) for gram in grams]
        S.record("consensus", torch.stack(factors, 1))
        return factors

    def unseen(self, S: Server) -> Tensor:
        """Personal tensors and BN_DSE statistics averaged over the clients that have trained, or the start.

        The server's own kept entries are never written.
        """
        row = S.row.clone()
        if self.hp.unseen_dse == "mean":
            for index in (S.personal, S.local):
                row[index.at] = S.peek(index)[S.trained].mean(0)
        return row[None]
