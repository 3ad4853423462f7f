"""FedSR: a stochastic representation with two regularisers (Nguyen, Torr, Lim, NeurIPS 2022).

The head becomes a Gaussian encoder and a linear classifier. The reference distributions r(z | y) and the
scalar C stay on their client. As in the released code, they have a separate optimiser rule (momentum .9, not
clipped; weight decay is the protocol's). In evaluation the probabilities of 20 samples are averaged; their
noise is the same for all images and runs.

L2R is the mean norm of z, as in the released code; the paper's squared norm is an option. Two differences
from the release: it averages without sizes, here the protocol sets the weights of the average. Its "5 local
epochs" are 5 iterations; here local epochs are the protocol's.
"""

import functools
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.federation.method import Client, Index, Layout, Method, Model, equation

SAMPLES = 20


@dataclass(frozen=True)
class Params:
    """z: dimensions of the representation; l2r, cmi: the regularisers' weights; squared: L2R is the squared
    norm (paper).
    """

    z: Annotated[int, Field(ge=1)] = 512
    l2r: float = 0.01
    cmi: float = 0.001
    squared: bool = False


@equation("FedSR", "Sec. 3.3, L2R")
def l2_regulariser(z: Tensor, squared: bool = False) -> Tensor:
    """Mean over the batch of ||z||, or of ||z||^2; z [B, d] to a scalar. The gradient at z = 0 is 0."""
    squares = z.square().sum(1)
    return squares.mean() if squared else squares.clamp_min(torch.finfo(z.dtype).tiny).sqrt().mean()


@equation("FedSR", "Sec. 3.4, CMI")
def conditional_mutual_information(
    mu: Tensor, sigma: Tensor, r_mu: Tensor, r_sigma: Tensor, scale: Tensor
) -> Tensor:
    """KL(N(C mu, (C sigma)^2) || r(z | y)) in nats, summed over d, averaged over the batch.

    mu, sigma [B, d]: of the encoder. r_mu, r_sigma [B, d]: of the sample's class. All sigmas are
    above 0. scale: C, a scalar.
    """
    squares = (scale * sigma).square() + (scale * mu - r_mu).square()
    terms = r_sigma.log() - (scale * sigma).log() + squares / (2 * r_sigma.square()) - 0.5
    return terms.sum(1).mean()


class Reference(nn.Module):
    """r(z | y) = N(mu_y, softplus(raw_y)^2) of every class y, and the scale C."""

    role = "own"

    def __init__(self, classes: int, z: int) -> None:
        super().__init__()
        self.mu = nn.Parameter(torch.zeros(classes, z))
        self.raw = nn.Parameter(torch.ones(classes, z))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.mu[y], F.softplus(self.raw[y])


@functools.cache
def noise(z: int) -> Tensor:
    """Noise of the evaluation, [SAMPLES, 1, z]; a constant, because exporters cannot save a generator."""
    return torch.randn((SAMPLES, 1, z), generator=torch.Generator().manual_seed(0))


class StochasticHead(nn.Module):
    """Feature [B, F] to logits [B, C]: of one sample z in training, of the mean probability of 20 in
    evaluation.
    """

    def __init__(self, features: int, z: int, classes: int) -> None:
        super().__init__()
        self.z = z
        self.encoder = nn.Linear(features, 2 * z)
        self.classify = nn.Linear(z, classes)
        self.reference = Reference(classes, z)

    def encode(self, feature: Tensor) -> tuple[Tensor, Tensor]:
        """mu, sigma [B, z], in fp32."""
        mu, raw = self.encoder(feature).float().split(self.z, dim=1)
        return mu, F.softplus(raw)

    def forward(self, feature: Tensor) -> Tensor:
        mu, sigma = self.encode(feature)
        if self.training:
            logits: Tensor = self.classify(mu + sigma * torch.randn_like(sigma))
            return logits
        probabilities = self.classify(mu + sigma * noise(self.z).to(mu)).float().softmax(2)
        return probabilities.mean(0).clamp_min(1e-30).log()


class FedSR(Method):
    """Cross entropy of one sample, plus l2r L2R and cmi CMI; the global model is evaluated."""

    name = "fedsr"
    steady = "round"
    Params = Params
    param_groups = {"own": {"momentum": 0.9, "clip": None}}
    evaluates = "shared"

    def model(self, model: Model) -> Model:
        model.head = StochasticHead(model.feature_dim, self.hp.z, model.classes)
        return model

    def local(self, L: Layout) -> Index:
        return L.role("own")

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        head = C.model.head
        assert isinstance(head, StochasticHead)
        mu, sigma = head.encode(C.model.neck(C.model.body(x)))
        z = mu + sigma * torch.randn_like(sigma)
        r_mu, r_sigma = head.reference(y)
        l2r = l2_regulariser(z, self.hp.squared)
        cmi = conditional_mutual_information(mu, sigma, r_mu, r_sigma, head.reference.scale)
        return C.criterion(head.classify(z), y) + self.hp.l2r * l2r + self.hp.cmi * cmi
