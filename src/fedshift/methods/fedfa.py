"""FedFA: features are augmented by as much as the clients' feature statistics differ (Zhou & Konukoglu, ICLR
2023).

This is Federated Feature Augmentation (ICLR 2023), the layer that FDSE names in A7.2. The FedFA that FDSE
cites (feature anchors) is another method.

A layer follows each stage (on AlexNet: pool1, pool2, conv3, conv4, pool5). It acts in training only, if its
own coin succeeds for the batch. As in the released code, running means are updated only then.

`variance: per_channel` is the paper's variance over clients. The released code takes one variance over
clients and channels, so that after the first round every channel gets the same factor. The average is the
protocol's; FDSE's port averages uniformly (preset `released`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fedshift.federation.method import Method, Model, Server, equation
from fedshift.models.layers.blocks import channels, insert
from fedshift.models.layers.style import EPSILON, Style, adain, style, widened


@dataclass(frozen=True)
class Params:
    """p: probability of each coin; momentum: of the clients' running means; variance: over clients, by
    channel or all in one.
    """

    p: Annotated[float, Field(ge=0, le=1)] = 0.5
    momentum: Annotated[float, Field(ge=0, le=1)] = 0.99
    variance: Literal["per_channel", "official_scalar"] = "per_channel"


@equation("FedFA", "client's running mean")
def running_mean(running: Tensor, statistic: Tensor, momentum: float) -> Tensor:
    """momentum running + (1 - momentum) mean(statistic), in place: running [C], statistic [B, C]."""
    return running.mul_(momentum).add_(statistic.mean(0), alpha=1 - momentum)


@equation("FedFA", "share of a channel")
def share(variance: Tensor) -> Tensor:
    """gamma [C] = C u / sum u, u = 1 / (1 + 1 / (variance + 1e-6)); variance [C] is over the clients."""
    u = 1 / (1 + 1 / (variance + EPSILON))
    return len(u) * u / u.sum()


@equation("FedFA", "augmentation")
def augmented(x: Tensor, own: Style, variances: Style, noise: Tensor) -> Tensor:
    """Move both statistics of x [B, C, h, w] by noise sqrt((1 + gamma) V); noise [2, B, C] for mu and sigma.

    V is the unbiased variance of x's statistics over the batch + 1e-6; for one sample it is 1e-6.

    - own: means and deviations of x [B, C] (`style(x)`)
    - variances: variances over clients [C], of which gamma is the `share`
    """
    return adain(x, own, widened(own, noise, 1 + share(variances.mu), 1 + share(variances.sigma)))


@equation("FedFA", "variance over clients")
def over_clients(running: Tensor, form: str) -> Tensor:
    """The unbiased variance over K > 1 clients of their running means [K, C]: [C].

    form: "per_channel", or "official_scalar", one variance over clients and channels for all channels.
    """
    if form == "per_channel":
        return running.var(0)
    return running.var().expand(running.shape[1])


class FFA(nn.Module):
    """Layer from [B, C, h, w] to the same shape; stores the client's running means and their variance over
    clients.
    """

    running_mu: Tensor
    running_sigma: Tensor
    variance_mu: Tensor
    variance_sigma: Tensor

    def __init__(self, channels: int, p: float, momentum: float) -> None:
        super().__init__()
        self.p, self.momentum = p, momentum
        self.register_buffer("running_mu", torch.zeros(channels))
        self.register_buffer("running_sigma", torch.ones(channels))
        self.register_buffer("variance_mu", torch.ones(channels))
        self.register_buffer("variance_sigma", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p or torch.rand(()) >= self.p:
            return x
        own = style(x)
        for running, now in zip((self.running_mu, self.running_sigma), own.detach(), strict=True):
            running_mean(running, now, self.momentum)
        noise = torch.randn(2, *own.mu.shape, device=x.device)
        return augmented(x, own, Style(self.variance_mu, self.variance_sigma), noise)


class FedFA(Method):
    """FedAvg with FFA layers; the server turns the clients' running means into their variance."""

    name = "fedfa"
    Params = Params

    def model(self, model: Model) -> Model:
        layers = {stage: FFA(c, self.hp.p, self.hp.momentum) for stage, c in channels(model).items()}
        return insert(model, layers, "ffa")

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        """The mean of all tensors, then the variances over clients, if two or more clients take part."""
        super().aggregate(S, rows, p, up)
        if len(rows) < 2:
            return
        at = {entry.name: entry.slice for entry in S.layout.entries}
        for name in at:
            if "_ffa.variance_" in name:
                running = rows[:, at[name.replace("variance", "running")]]
                S.row[at[name]] = over_clients(running, self.hp.variance)
