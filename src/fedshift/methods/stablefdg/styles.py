"""Steps 1 to 4 of StableFDG: which styles a client receives, which samples take them, which samples are
added, and how far their styles move.

All are functions of tensors and random numbers. Style information Phi is [4, C]: mu_n, sigma_n, and the
variances of both.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.equations import equation
from fedshift.models.layers.style import EPSILON, Form, Style

Shift = Literal["seeds", "random", "official"]
SHIFTED = 16  # of a batch, in the released code


@equation("StableFDG", "Eq. 2-3")
def information(styles: Style, form: Form) -> Tensor:
    """Phi [4, C] of a client whose samples have `styles` [n, C]: mu_n, sigma_n, Sigma_n(mu), Sigma_n(sigma).

    form "biased": Eq. 2; "official": unbiased variances + 1e-6 (0 for a single sample).
    """
    n = len(styles.mu)
    official = form == "official" and n > 1
    variances = [statistic.var(0, correction=int(official)) + EPSILON * official for statistic in styles]
    return torch.stack([*(statistic.mean(0) for statistic in styles), *variances])


@equation("StableFDG", "Step 1")
def ring(clients: int, m: int, rng: torch.Generator) -> Tensor:
    """The clients whose styles each client receives, [K, min(m, K - 1)]: those that follow it in a random
    ring.

    No client receives its own style, none is left out, and every other client is equally likely.
    """
    order = torch.randperm(clients, generator=rng)
    senders = torch.empty(clients, min(m, clients - 1), dtype=torch.int64)
    for step in range(senders.shape[1]):
        senders[order, step] = order.roll(-1 - step)
    return senders


@equation("StableFDG", "Table 9", sharing="largest_distance")
def farthest(phi: Tensor, m: int) -> Tensor:
    """For each client the min(m, K - 1) clients whose Phi [K, 4, C] has the largest distance from its own,
    [K, m].
    """
    distance = torch.cdist(phi.flatten(1), phi.flatten(1)).fill_diagonal_(-1)
    return distance.topk(min(m, len(phi) - 1)).indices


@equation("StableFDG", "Step 2, k-means++")
def seeds(features: Tensor, race: Tensor) -> Tensor:
    """k-means++ seeding of features [B, F] into k samples [k]; race [k, B]: standard exponential numbers.

    The first seed is uniform. Each next one has a probability proportional to its squared distance to the
    nearest seed, or is uniform among the rest if all distances are 0. The sample with the smallest race /
    weight is chosen, which samples in proportion to the weights without waiting for the device.
    """
    squared = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist").square()
    nearest = torch.ones_like(squared[0])
    free = torch.ones_like(nearest)
    seeded = []
    for number, draws in enumerate(race):
        weight = torch.where((free * nearest).any(), nearest, 1.0)
        seed = torch.where(free > 0, weight / draws, -1.0).argmax()
        free = free.index_fill(0, seed, 0.0)
        distances = squared.index_select(0, seed[None])[0]
        nearest = distances if number == 0 else nearest.minimum(distances)
        seeded.append(seed)
    return torch.stack(seeded)


@equation("StableFDG", "Step 2, released", shift="official")
def centres(features: Tensor, seeded: Tensor) -> Tensor:
    """The centres [k, F] of features [B, F] after one Lloyd iteration from the seeds `seeded` [k]."""
    start = features[seeded]
    member = F.one_hot(torch.cdist(features, start).argmin(1), len(start)).to(features.dtype)
    size = member.sum(0)[:, None]
    return torch.where(size > 0, member.T @ features / size.clamp(min=1), start)


@equation("StableFDG", "Step 2")
def received(phi: Tensor, pick: Tensor, noise: Tensor) -> Style:
    """New styles [B, C] from m received ones, phi [m, 4, C]: mu_n' + eps_mu, max(0, sigma_n' + eps_sigma).

    eps = noise sqrt(Sigma_n'), noise [2, B, C] standard normal. pick [B]: which of the m styles a sample
    takes.
    """
    mu, sigma, mu_variance, sigma_variance = phi[pick].unbind(1)
    return Style(mu + noise[0] * mu_variance.sqrt(), (sigma + noise[1] * sigma_variance.sqrt()).clamp(min=0))


@equation("StableFDG", "Step 3")
def oversampled(labels: Tensor, size: int, rng: torch.Generator) -> Tensor:
    """Indices [size] of samples to add so that classes among `labels` [B] become equal, ascending by class.

    Repeatedly each smallest class gets one sample; if fewer remain, random ones of these classes do. Samples
    of a class are uniform.
    """
    classes, counts = labels.unique(return_counts=True)
    total, left = counts.clone(), size
    while left:
        smallest = (total == total.min()).nonzero().flatten()
        if len(smallest) > left:
            smallest = smallest[torch.randperm(len(smallest), generator=rng)[:left]]
        total[smallest] += 1
        left -= len(smallest)
    added = []
    for label, count, more in zip(classes, counts.tolist(), (total - counts).tolist(), strict=True):
        members = (labels == label).nonzero().flatten()
        added.append(members[torch.randint(count, (more,), generator=rng)])
    return torch.cat(added)


@equation("StableFDG", "Step 3, random", oversampling="random")
def any_samples(batch: int, size: int, rng: torch.Generator) -> Tensor:
    """Random indices [size], uniform over the batch, with replacement."""
    return torch.randint(batch, (size,), generator=rng)


@equation("StableFDG", "Eq. 4-5")
def explored(own: Style, source: Tensor, alpha: float) -> Style:
    """Styles [B + size, C]: `own` [B, C], then s + alpha (s - mean of `own`) for the added samples.

    source [B + size]: the sample that each row is a copy of, the batch first. A new sigma may be negative.
    """
    batch = len(own.mu)
    pairs = zip(own, own.of(source[batch:]), strict=True)
    return Style(*(torch.cat([old, new + alpha * (new - old.mean(0))]) for old, new in pairs))
