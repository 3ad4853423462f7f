"""hFedF: a hypernetwork on the server makes every client's model (Bartholet et al. 2024, arXiv 2402.06974,
Algorithm 1).

No code was released. Choices where the paper is incomplete or contradictory:

- Algorithm 1 takes phi~ - phi as the gradient and then descends, which moves away from the clients. Here the
  gradient is phi - phi~, as in pFedHN's code; `literal_sign` is the published sign.
- Eq. 9 has exp(-gamma). By Algorithm 3, Section 3.4 and A.1.1, a closer gradient weighs more: +1.
  `gradalign_sign: -1` is Eq. 9.
- The smoothed state replaces the live state (Algorithm 4), so the average of past states is the state itself.
  Eq. 10 then is the optimiser's step times alpha, without a second copy. Its warm-up is not given: 10 rounds.
- There are four hidden layers, as in Table 8; the text has three.
- The start of embeddings is not given: N(0, 1), as in pFedHN's code, times `embedding_std`.
- Adam's weight decay is coupled and acts on the embeddings too. Adam also moves the embedding of a client
  that did not take part.
- The paper's network has no batch normalisation; here its statistics are averaged by the protocol's weights.
- For pre-learned embeddings (A.1.3), the autoencoder's loss, optimiser and epochs are not given: mean squared
  error, Adam 1e-3, 50 epochs in batches of 20. It sees augmented images, scaled to [0, 1] by each channel's
  extremes over the 100 images that it is trained on. Its transfer to the clients is not counted as traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.method import Client, Layout, Server, Slot, Visit, equation, mean
from fedshift.federation.optimizer import Rule
from fedshift.methods.hfedf.autoencoder import Autoencoder, unit_range
from fedshift.methods.hfedf.hypernet import Generated

IMAGES = 100  # that a client's autoencoder is trained on


@dataclass(frozen=True)
class Params:
    """`lr`, `weight_decay`: of the server's Adam.
    `ema`: alpha of Eq. 10; 1 is without.
    `warmup`: rounds before EMA begins.
    `gradalign`: weights by Eq. 8 and 9, else uniform.
    `gradalign_sign`: +1 favours gradients near the mean, -1 those far from it.
    `literal_sign`: Algorithm 1's sign of the update.
    `embedding`: learned, sampled again after every step, or an autoencoder's latents.
    `embedding_dim`: by default floor(1 + N / 4).
    `embedding_std`: deviation of sampled embeddings.
    `hidden`: number of hidden layers of 50.
    `head_init`: "fanin" gives generated entries the deviation that torch gives the model's own, at embeddings
    of deviation 1.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-5
    ema: Annotated[float, Field(gt=0, le=1)] = 0.95
    warmup: int = 10
    gradalign: bool = True
    gradalign_sign: Literal[1, -1] = 1
    literal_sign: bool = False
    embedding: Literal["learned", "random", "pre_learned"] = "learned"
    embedding_dim: Annotated[int, Field(ge=1)] | None = None
    embedding_std: float = 1.0
    hidden: Annotated[int, Field(ge=0)] = 4
    head_init: Literal["default", "fanin"] = "default"


@equation("hFedF", "Eq. 8")
def alignment(gram: Tensor) -> Tensor:
    """gamma_i = cos(g_i, mean of all g), [K], from the Gram matrix <g_i, g_j> [K, K]; 0 if one of the two is
    zero.
    """
    dots = gram.mean(1)
    norms = gram.diagonal().sqrt() * dots.mean().clamp_min(0).sqrt()
    return torch.where(norms > 0, dots / norms, 0)


@equation("hFedF", "Eq. 9")
def gradalign(gamma: Tensor, sign: int) -> Tensor:
    """softmax(sign gamma), [K]. sign +1: Algorithm 3 (default); -1: Eq. 9 as published."""
    return torch.softmax(sign * gamma, 0)


@equation("hFedF", "Eq. 10")
def ema_step(t: int, warmup: int, alpha: float) -> float:
    """Factor of the server's step in round t, from 0: 1 up to and including round `warmup`, alpha after it.

    alpha theta + (1 - alpha) theta_before = theta_before + alpha (theta - theta_before).
    """
    return alpha if t > warmup else 1.0


class HFedF(Generated):
    """The server descends on embeddings and hypernetwork along the clients' updates, by the chain rule."""

    name = "hfedf"
    Params = Params
    logs = {
        "alignment": "gamma_i, cosine with the mean gradient (Eq. 8)",
        "gradalign": "the clients' weights in the server's step (Eq. 9)",
        "embeddings": "nu after the server's step (Sec. 4.1)",
    }

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        if self.hp.embedding == "pre_learned":
            size = lambda L, N: (Autoencoder.size(self.net(L, N).dim),)  # noqa: E731
            self.slots += (Slot("autoencoder", size, "client", init=self._autoencoders),)

    def _start(self, L: Layout, N: int, rng: torch.Generator) -> Tensor:
        h = super()._start(L, N, rng)
        self.net(L, N).embeddings(h).mul_(self.hp.embedding_std)
        return h

    def _autoencoders(self, L: Layout, N: int, rng: torch.Generator) -> Tensor:
        return Autoencoder.draw(self.net(L, N).dim, rng).repeat(N, 1)

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        """A.1.3: before the first round, embeddings become latents of the clients' autoencoders.

        Raises FedshiftError if not every client takes part in the first round.
        """
        if S.t == 0 and self.hp.embedding == "pre_learned":
            if len(S.active) < S.N:
                problem = "pre-learned embeddings need every client in the first round"
                raise FedshiftError("method hfedf", problem, "Set federation.participation to 1.")
            latents = torch.stack(visit(S.active, self._latent)["latent"])
            self.net(S.layout, S.N).embeddings(S.slot.h)[S.active] = latents
        return {}

    def _latent(self, C: Client) -> Mapping[str, Tensor]:
        """The mean latent of the validation images, by the client's own autoencoder, trained from a common
        start.

        Raises FedshiftError for a client with too few training images, and for images that are not 32 px.
        """
        if not (batches := [x for x, _ in C.batches()]):
            problem = f"client {C.k} has too few training images for an autoencoder"
            raise FedshiftError("method hfedf", problem, "Give it two or more, or learn the embeddings.")
        images = torch.cat(batches)[:IMAGES]
        if images.shape[2:] != (32, 32):
            problem = f"the autoencoder of pre-learned embeddings takes 32 px, not {images.shape[2]}"
            raise FedshiftError("method hfedf", problem, "Set data.input_px to 32, or learn the embeddings.")
        to_unit, net = unit_range(images), Autoencoder.on(C.slot.autoencoder)
        net.fit(to_unit(images))
        return {"latent": C.mean("val", lambda x, y: net.encode(to_unit(x)).mean(0))}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        hp, B, nu = self.hp, S.layout.B, self.net(S.layout, S.N).embeddings(S.slot.h)
        pulled, before = self.pulled(S, rows), nu.clone()
        if hp.embedding == "pre_learned":
            pulled.inner[:, : nu.numel()] = 0
        weights = torch.full_like(p, 1 / len(p))
        if hp.gradalign:
            gamma = alignment(pulled.gram())
            weights = gradalign(gamma, hp.gradalign_sign)
            S.log("alignment", gamma)
        S.log("gradalign", weights)
        g = pulled.combined(-weights if hp.literal_sign else weights)
        lr = hp.lr * ema_step(S.t, hp.warmup, hp.ema)
        S.descend("h", g, Rule("adam", lr, weight_decay=hp.weight_decay))
        if hp.embedding == "random":
            nu.copy_(torch.randn(nu.shape, generator=S.rng).mul_(hp.embedding_std))
        if hp.embedding == "pre_learned":
            nu.copy_(before)
        S.log("embeddings", nu, "N dimension")
        S.row[B] = mean(rows[:, B], p)
