"""The autoencoder whose latents hFedF can use as its clients' embeddings (Table 9): 9,395 + 4,097 e
parameters, for 32 px.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Autoencoder(nn.Module):
    """Images [B, 3, 32, 32] in [0, 1] to latents [B, e] and back; in fp32 whatever the run's precision."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(2048, dim),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(dim, 2048), nn.Unflatten(1, (32, 8, 8)),
            nn.ConvTranspose2d(32, 16, 2, 2), nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 2, 2), nn.Sigmoid(),
        )  # fmt: skip

    @staticmethod
    def size(dim: int) -> int:
        """Number of parameters with a latent of `dim`."""
        return 9_395 + 4_097 * dim

    @classmethod
    def draw(cls, dim: int, rng: torch.Generator) -> Tensor:
        """The start of all parameters, [size]."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(rng.initial_seed())
            return parameters_to_vector(cls(dim).parameters()).detach()

    @classmethod
    def on(cls, vector: Tensor) -> Autoencoder:
        """An autoencoder whose parameters are views into `vector` [size], so training changes the vector."""
        with vector.device:
            net = cls((len(vector) - 9_395) // 4_097)
        vector_to_parameters(vector, net.parameters())
        return net

    def encode(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return self.encoder(x.float())

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return self.decoder(self.encode(x))

    def fit(self, x: Tensor, epochs: int = 50, batch: int = 20, lr: float = 1e-3) -> None:
        """Adam on the mean squared error; x [n, 3, 32, 32] in [0, 1], batches in the order given."""
        optimizer = torch.optim.Adam(self.parameters(), lr=lr)
        for _ in range(epochs):
            for part in x.split(batch):
                optimizer.zero_grad()
                with torch.autocast(x.device.type, enabled=False):
                    loss = F.mse_loss(self(part), part)
                loss.backward()
                optimizer.step()


def unit_range(images: Tensor) -> Callable[[Tensor], Tensor]:
    """The function that maps each channel of `images` [n, 3, h, w] from its extremes to [0, 1]."""
    low, high = images.amin((0, 2, 3), keepdim=True), images.amax((0, 2, 3), keepdim=True)
    return lambda x: (x - low) / (high - low).clamp_min(1e-6)
