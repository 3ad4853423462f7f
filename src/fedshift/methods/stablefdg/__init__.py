"""StableFDG: shared, shifted and explored styles, and attention to what a class has in common (Park et al.
2023).

A round:

- Step 1: each participant sends the style information of its samples at stage 1 (Eq. 2-3) and receives
  another client's.
- Step 2: in training, half of a batch takes the received style.
- Step 3: samples are added to balance the classes.
- Step 4: styles of the added samples are extrapolated (Eq. 4-5).
- Step 5: all styles are mixed.
- The classifier sees the map's average and its attention-weighted average (Eq. 6-8).

Where paper and released code differ, the default is listed first; `preset: released` takes the code's side:

- `sigma: biased` is Eq. 1; official: unbiased + 1e-6. Styles are measured in training mode on augmented
  images (code).
- `shift: seeds`: B/2 samples, chosen by k-means++ seeding, do not change their style. For `official`, the
  last 16 of the batch take the new style. The others take cluster centres, in no order. The noise of Step 2
  has the variance Sigma, once (code).
- The centre of Eq. 4-5 is the batch's before samples are added (formula and code; after, by the text).
- Steps 3-4 happen at the first position whose coin succeeds. There, exploring and mixing are one AdaIN
  (code).
- `similarity: cosine` (code; Eq. 6 is the plain product).
- A sample's partner (X_j of Eq. 6) is another image of its class, never an added copy of the sample. In the
  code a copy counts as another image. There, images alone in their class also get an auxiliary image before
  copies are made, which is omitted here.
- `singletons: mixed` applies Eq. 8 to an image alone in its class; cross (code): the other's query alone.
  That other image is from an auxiliary batch of one image per class (App. G). This batch is passed only if
  some image is alone.
- Queries, keys and the classifier start as in the code, whose one convolution for queries, keys and values is
  cut into its parts.
- `share_from_round: 1` (released): no sharing in the first round. There every client sends its style; here
  the participants do.
- On networks other than ResNets the plain feature is the output of the network's neck, not the global
  average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fedshift.federation.method import Client, Model, Server, Visit
from fedshift.methods._centralizable import Centralizable
from fedshift.methods.stablefdg.attention import ConvolutionHighlighter, Highlighter, Similarity, partners
from fedshift.methods.stablefdg.styles import (
    SHIFTED,
    Shift,
    any_samples,
    centres,
    explored,
    farthest,
    information,
    oversampled,
    received,
    ring,
    seeds,
)
from fedshift.models.base import MapFunction
from fedshift.models.layers.blocks import channels, check_stages
from fedshift.models.layers.style import Form, Style, adain, copies, mixed, shares, style


@dataclass(frozen=True)
class Params:
    """`p`: probability of the coin of Step 2 and of each position of Steps 3-5.
    `sigma`, `shift`, `similarity`, `singletons`, `share_from_round`: see above.
    `styles`: how many a client receives (0: no Step 2).
    `sharing`: whose style a client receives.
    `shift`: which samples take it (random: Table 11).
    `size`: samples added (default: as many as the batch; 0: Step 5 alone).
    `oversampling`: how added samples are chosen (Table 12).
    `alpha`: exploration level.
    `beta`: of Step 5's Beta distribution.
    `positions`: of Steps 3-5.
    `attention`: query in training (Table 15), Table 16's convolutions, or none.
    `d`: embedding size.
    `dead_v`: the released code's unused parameters.
    `centralized`: one model on all data, without Steps 1-2.
    """

    p: Annotated[float, Field(ge=0, le=1)] = 0.5
    sigma: Form = "biased"
    styles: int = 1
    sharing: Literal["random", "largest_distance"] = "random"
    share_from_round: int = 0
    shift: Shift = "seeds"
    size: int | None = None
    oversampling: Literal["balanced", "random"] = "balanced"
    alpha: float = 3.0
    beta: Annotated[float, Field(gt=0)] = 0.1
    positions: tuple[str, ...] = ("stage1", "stage2", "stage3")
    attention: Literal["both", "self", "cross", "convolution", "none"] = "both"
    similarity: Similarity = "cosine"
    singletons: Literal["mixed", "cross"] = "mixed"
    d: Annotated[int, Field(ge=1)] = 30
    dead_v: bool = False
    centralized: bool = False


class StableFDG(Centralizable):
    """FedAvg, uniform over the participants, with Steps 1-5 and the highlighter."""

    name = "stablefdg"
    version = 2
    Params = Params
    logs = {"style": "Phi_n: mu_n, sigma_n and their variances (Eq. 2-3)"}
    weights = "uniform"

    def model(self, model: Model) -> Model:
        """Replace neck and head. Raises FedshiftError for a position that the network does not have."""
        hp = self.hp
        check_stages(model, hp.positions, "positions")
        if hp.attention == "none":
            return model
        c = list(channels(model).values())[-1]
        if hp.attention == "convolution":
            model.neck = ConvolutionHighlighter(model.neck, c, 2 * hp.d)
        else:
            model.neck = Highlighter(model.neck, c, hp.d, hp.similarity, hp.dead_v)
        model.feature_dim += c
        model.head = nn.Linear(model.feature_dim, model.classes)
        return model

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        """Step 1: each of K >= 2 participants sends its Phi and receives those of m others, [K, m, 4, c]."""
        hp = self.hp
        if not (hp.p and hp.styles) or S.t < hp.share_from_round or hp.centralized:
            return {}
        phi = torch.stack(visit(S.active, self._phi)["style"])
        S.log("style", phi, "K 4 channels")
        if len(phi) < 2:
            return {}
        senders = ring(len(phi), hp.styles, S.rng) if hp.sharing == "random" else farthest(phi, hp.styles)
        return {"style": phi[senders.to(phi.device)]}

    @torch.no_grad()
    def _phi(self, C: Client) -> Mapping[str, Tensor]:
        """Phi [4, c] of the client's samples at stage 1."""
        form = self.hp.sigma
        styles = [style(C.model.body(x, stop="stage1"), form) for x, _ in C.batches()]
        if not styles:  # batches of one image are left out
            styles = [style(C.model.body(one_per_class(C)[0], stop="stage1"), form)]
        return {"style": information(Style(*map(torch.cat, zip(*styles, strict=True))), form)}

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        steps = Steps(self.hp, C, y)
        if self.hp.attention in ("none", "convolution"):
            return C.criterion(C.model(x, steps.after()).logits, steps.y)
        z = C.model.body(x, steps.after())
        feature = C.model.neck(z, lambda query: self.queries(C, steps, query))
        return C.criterion(C.model.head(feature), steps.y)

    def queries(self, C: Client, steps: Steps, own: Tensor) -> Tensor:
        """Eq. 8: the mean queries [B, d] used for attention, (theirs + own) / 2; theirs alone is Eq. 6."""
        if self.hp.attention == "self":
            return own
        other, alone = partners(steps.labels, steps.source)
        theirs = own[other.to(own.device, non_blocking=True)]
        share = 0.0 if self.hp.attention == "cross" else 0.5
        if not alone.any():
            return theirs.lerp(own, share)
        images, held = one_per_class(C)
        auxiliary = C.model.neck.queries(C.model.body(images))  # type: ignore[operator]
        single = alone.to(own.device, non_blocking=True)[:, None]
        theirs = torch.where(single, auxiliary[torch.searchsorted(held, steps.y)], theirs)
        used = theirs.lerp(own, share)
        return torch.where(single, theirs, used) if self.hp.singletons == "cross" else used


class Steps:
    """Steps 2-5 in one forward pass.

    - y, labels: labels of the current batch on the device and on the host
    - source: for each row, the index of the first image it is a copy of, or its own index; on the host
    """

    def __init__(self, hp: Params, C: Client, y: Tensor) -> None:
        self.hp, self.y, self.labels, self._rng = hp, y, C.labels, C.rng
        self.source = torch.arange(len(y))
        self._phi: Tensor | None = vars(C.down).get("style")
        self._enlarged = False

    def after(self) -> dict[str, MapFunction]:
        """The function to apply after each stage, by name."""
        hooks: dict[str, MapFunction] = dict.fromkeys(self.hp.positions, self.explore)
        both = "stage1" in hooks
        hooks["stage1"] = lambda x: self.explore(self.shift(x)) if both else self.shift(x)
        return hooks

    def _coin(self) -> bool:
        return bool(torch.rand((), generator=self._rng) < self.hp.p)

    def shift(self, x: Tensor) -> Tensor:
        """Step 2: part of the samples take a received style; styles have no gradient."""
        if not self._coin() or self._phi is None:  # the coin in any case: variants see the same later ones
            return x
        batch, device = len(x), x.device
        own = style(x.detach(), self.hp.sigma)
        pick = torch.randint(len(self._phi), (batch,), device=device)
        new = received(self._phi, pick, torch.randn(2, *own.mu.shape, device=device))
        return adain(x, own, self._shifted(own, new))

    def _shifted(self, own: Style, new: Style) -> Style:
        """The batch's styles, of which those to be shifted are replaced by new ones."""
        batch = len(own.mu)
        if self.hp.shift == "official":
            unshifted = batch - min(SHIFTED, batch // 2)
            features = torch.cat(own, 1)
            centre = centres(features, seeds(features, _race(unshifted, batch, features))).chunk(2, 1)
            return Style(*(torch.cat([c, n[unshifted:]]) for c, n in zip(centre, new, strict=True)))
        race = _race(max(1, batch // 2), batch, own.mu)
        by_distance = self.hp.shift == "seeds"
        samples = seeds(torch.cat(own, 1), race) if by_distance else race[0].argsort()[: len(race)]
        stays = torch.zeros(batch, 1, dtype=torch.bool, device=own.mu.device).index_fill(0, samples, True)
        return Style(*(torch.where(stays, o, n) for o, n in zip(own, new, strict=True)))

    def explore(self, x: Tensor) -> Tensor:
        """Steps 3-5; after the first success, later positions only mix.

        The normalisation has a gradient, the new styles do not.
        """
        if not self._coin():
            return x
        own = style(x, self.hp.sigma)
        target = own.detach()
        size = len(x) if self.hp.size is None else self.hp.size
        if size and not self._enlarged:
            self._enlarged = True
            self._enlarge(len(x), size)
            source = self.source.to(x.device, non_blocking=True)
            target = explored(target, source, self.hp.alpha)
            x, own, self.y = copies(x, source), own.of(source), self.y[source]
        share = shares(len(x), self.hp.beta, x.device)
        return adain(x, own, mixed(target, share, torch.randperm(len(x), device=x.device)))

    def _enlarge(self, batch: int, size: int) -> None:
        if self.hp.oversampling == "balanced":
            added = oversampled(self.labels, size, self._rng)
        else:
            added = any_samples(batch, size, self._rng)
        self.source = torch.cat([self.source, added])
        self.labels = self.labels[self.source]


def _race(k: int, batch: int, like: Tensor) -> Tensor:
    """Standard exponential numbers [k, batch], random."""
    return torch.empty(k, batch, device=like.device).exponential_()


def one_per_class(C: Client) -> tuple[Tensor, Tensor]:
    """A random, augmented training image of each of the client's C' classes: x [C', 3, h, w], y [C']
    ascending.
    """
    samples, train = C.samples, C.data.train
    if not hasattr(C.tmp, "classes"):  # once a round
        labels = samples.host_labels[train]
        C.tmp.classes = [train[labels == label] for label in labels.unique()]
    drawn = [members[torch.randint(len(members), (), generator=C.rng)] for members in C.tmp.classes]
    pixels, y = samples.take(torch.stack(drawn).to(samples.home, non_blocking=True))
    draws = samples.augment.draw(len(drawn), C.rng).to(samples.device, non_blocking=True)
    return samples.augment(pixels, draws), y
