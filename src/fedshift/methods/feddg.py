"""FedDG (ELCFS): episodic learning with amplitudes of all clients' images (Liu et al., CVPR 2021), for
classification.

Before the first round every client, active or not, sends the low-frequency amplitudes of its training images:
the centre of the shifted spectrum, which is all that is mixed. It receives the amplitudes of all clients when
it first takes part.

A step minimises L_in(theta) + L_out(theta'). theta' is one clamped gradient step on L_in away; L_out is the
loss on images with mixed amplitudes. The inner gradient is a constant (first order, as released). For every
image, another client is sampled uniformly, then one of that client's images. The released code samples from
an eighth of the images, this code from all.

Deviations:

- The boundary-contrastive term belongs to segmentation and is omitted.
- Mixing is the paper's: (1 - r) a' + r a with r ~ U(0, 1) and a square of at least one bin around the mean.
  `released` swaps the mean alone.
- In CCST's port a client may also sample from itself. Its outer model is a detached copy, so the outer loss
  has no effect. This is the preset `ccst_port`, which equals FedAvg.
- A client without others samples from itself.
- Augmented images are mixed with amplitudes of unaugmented images.
- Statistics of batch normalisation are those of L_in's pass alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedshift.federation.method import Client, Method, Server, Slot, Visit, equation


@dataclass(frozen=True)
class Params:
    """`width`: half the square's side as a part of the image's.
    `released`: swap the mean alone.
    `inner`: learning rate of the inner step.
    `clamp`: bound of the inner step's gradient.
    `outer`: whether L_out counts.
    `amplitudes`: those of other clients, or of all clients including its own (CCST's port).
    """

    width: float = 0.01
    released: bool = False
    inner: float = 1e-3
    clamp: float = 100.0
    outer: bool = True
    amplitudes: Literal["others", "all"] = "others"


@equation("FedDG", "Eq. 2, low-frequency square")
def half_width(size: int, width: float, released: bool = False) -> int:
    """Bins on each side of the mean: max(1, floor(width size)), or 0 if `released`. size: the smaller side,
    px.
    """
    return 0 if released else max(1, int(width * size))


def low_frequencies(size: int, half: int, device: torch.device) -> Tensor:
    """Indices of the bins -half .. half along an unshifted axis of `size` bins, [2 half + 1]."""
    return torch.arange(-half, half + 1, device=device) % size


@equation("FedDG", "Eq. 2, amplitudes")
def low_amplitudes(u: Tensor, half: int) -> Tensor:
    """Unscaled |FFT2| per channel of u [B, 3, h, w] in [0, 1]: [B, 3, 2 half + 1, 2 half + 1].

    Frequencies -half .. half in both axes of the shifted spectrum, with the mean in the middle.
    """
    rows, columns = (low_frequencies(size, half, u.device) for size in u.shape[2:])
    return torch.fft.fft2(u).abs()[:, :, rows[:, None], columns]


@equation("FedDG", "Eq. 2-3, interpolation")
def mix_amplitudes(u: Tensor, other: Tensor, r: Tensor, half: int) -> Tensor:
    """Replace the central amplitudes a of u [B, 3, h, w] by (1 - r) other + r a; the phases stay.

    other [B, 3, 2 half + 1, 2 half + 1]; r [B]. Returns the real part of the inverse transform, clipped to
    [0, 1].
    """
    spectrum = torch.fft.fft2(u)
    rows, columns = (low_frequencies(size, half, u.device) for size in u.shape[2:])
    own = spectrum[:, :, rows[:, None], columns]
    mixed = other.lerp(own.abs(), r[:, None, None, None])
    spectrum[:, :, rows[:, None], columns] = torch.polar(mixed, own.angle())
    return torch.fft.ifft2(spectrum).real.clamp(0, 1)


@equation("FedDG", "Eq. 5, inner step")
def inner_step(w: Tensor, g: Tensor, rate: float, clamp: float) -> Tensor:
    """w - rate clamp(g, -clamp, clamp), [P]; g = grad L_in(w), without weight decay and unclipped."""
    return w - rate * g.clamp(-clamp, clamp)


def draw_amplitudes(sizes: Tensor, own: int | None, site: Tensor, image: Tensor) -> Tensor:
    """Positions [B] in a bank of amplitudes, sorted by client; sizes [N]: images of each client.

    site, image [B]: random integers >= 0. They select a client, uniformly, then one of its images. own: the
    client to leave out, if any.
    """
    clients = len(sizes) - (own is not None)
    client = site % clients
    if own is not None:
        client = client + (client >= own)
    return (sizes.cumsum(0) - sizes)[client] + image % sizes[client]


class FedDG(Method):
    """FedAvg over episodic steps. The server stores the bank of amplitudes and their number per client."""

    name = "feddg"
    steady = "round"
    version = 2
    Params = Params
    slots = (
        Slot("bank", lambda L, N: (0,), "server", travels="once"),
        Slot("sizes", lambda L, N: (N,), "server", travels="once"),
    )

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        """Before the first round, all clients send the amplitudes of their training images."""
        if S.t == 0:
            sent = visit(range(S.N), self._amplitudes)
            bank = torch.cat(sent["amplitudes"])
            S.slot.bank.resize_(bank.shape).copy_(bank)
            S.slot.sizes.copy_(torch.stack(sent["size"]))
        return {}

    def _amplitudes(self, C: Client) -> Mapping[str, Tensor]:
        low = [low_amplitudes(C.samples.unit(x), self._half(x)) for x, _ in C.plain("train")]
        amplitudes = torch.cat(low)
        return {"amplitudes": amplitudes, "size": amplitudes.new_tensor(float(len(amplitudes)))}

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        C.tmp.batch = x, y
        return super().loss(C, x, y)

    def grad(self, C: Client, g: Tensor) -> None:
        if not self.hp.outer:
            return
        x, y = C.tmp.batch
        inner = C.row.clone()
        inner[C.layout.W] = inner_step(C.w, g, self.hp.inner, self.hp.clamp)
        network = C.net(inner)
        with C.precision():
            loss = C.criterion(network.model(self._mixed(C, x)).logits, y)
        network.backward(loss)
        g.add_(network.g)

    def _mixed(self, C: Client, x: Tensor) -> Tensor:
        """Mix amplitudes of other clients' images into the batch x [B, 3, h, w]; normalised, as is x."""
        with torch.autocast(x.device.type, enabled=False):
            alone = len(C.down.sizes) == 1 or self.hp.amplitudes == "all"
            drawn = torch.randint(2**62, (2, len(x)), device=x.device)
            other = C.down.bank[draw_amplitudes(C.down.sizes.long(), None if alone else C.k, *drawn)]
            draw = torch.zeros if self.hp.released else torch.rand
            r = draw(len(x), device=x.device)
            return C.samples.normalised(mix_amplitudes(C.samples.unit(x), other, r, self._half(x)))

    def _half(self, x: Tensor) -> int:
        return half_width(min(x.shape[2:]), self.hp.width, self.hp.released)
