"""Augmentation of a whole batch on its device: no loop over samples, no wait for the device.

- `domainbed`: DomainBed's training transform (Gulrajani & Lopez-Paz, "In Search of Lost Domain
  Generalization", ICLR 2021): RandomResizedCrop (scale .7-1), horizontal flip, ColorJitter (.3 four times),
  RandomGrayscale (.1)
- `fedrd`: the same with jitter .4 (FedRD's code)
- `translate`: Dassl's flip and Random2DTranslation (.5: resized to 9/8 of the input, then cropped at random;
  StableFDG's code)

Each operation equals that of torchvision.transforms.v2 on float images. Deviations: intermediate values are
not rounded to 8 bits. A sample's place in the batch modulo 4 decides at which of ColorJitter's four stages
its hue turns. Batches are shuffled, so every sample meets every order.
"""

import functools
import math
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

NORMALISE = {  # mean and standard deviation per channel of pixels in [0, 1]
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
TRIES = 10
BOX = 2 * TRIES + 2  # area and aspect ratio of each try, top, left
JITTER = {"domainbed": 0.3, "fedrd": 0.4}  # strength of ColorJitter, four times
DRAWS = {"none": 0, "flip": 1, "translate": 4} | dict.fromkeys(JITTER, BOX + 7)  # uniform numbers of a sample
LUMA = (0.2989, 0.587, 0.114)
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
BLEND_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
ORDERS = tuple(tuple((*o[:hue], HUE, *o[hue:]) for o in BLEND_ORDERS) for hue in range(4))


class Evaluate:
    """The test transform: uint8 [B, px, px, 3] to float32 [B, 3, input_px, input_px] in channels_last.

    Resizes (antialiased) if the sizes differ, and normalises: "unit" ([0, 1]), "half" ([-1, 1]) or
    "imagenet".
    """

    def __init__(self, px: int, input_px: int, normalise: str) -> None:
        self.px, self.input_px = px, input_px
        self.mean, self.deviation = NORMALISE[normalise]

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        device = images.device
        if self.px != self.input_px:
            with torch.autocast(device.type, enabled=False):
                start, length = constant((0.0,), device), constant((float(self.px),), device)
                weights = resize_weights(start, length, self.px, self.input_px).expand(len(images), -1, -1)
                return self.normalise(resize(images, weights, weights))
        # Rows of 3 px values: on a CPU, broadcasting over an innermost axis of 3 takes six times as long.
        mean = constant(tuple(255 * m for m in self.mean) * self.px, device)
        deviation = constant(tuple(255 * d for d in self.deviation) * self.px, device)
        x = images.flatten(2).float().sub_(mean).div_(deviation)
        return x.view(images.shape).permute(0, 3, 1, 2)

    def normalise(self, x: Tensor, gray: Tensor | None = None) -> Tensor:
        """x [B, 3, h, w] in [0, 1], normalised, in channels_last; without colour where `gray` [B]."""
        mean, deviation = constant(self.mean, x.device), constant(self.deviation, x.device)[:, None]
        mix = torch.eye(3, device=x.device).expand(len(x), 3, 3)
        if gray is not None:
            mix = torch.where(gray[:, None, None], constant(LUMA, x.device), mix)
        out = torch.baddbmm(-mean[:, None] / deviation, mix / deviation, x.flatten(2))
        return out.view(x.shape).contiguous(memory_format=torch.channels_last)


class Augment:
    """The training transform `name`, a key of `DRAWS`, with the shapes of `Evaluate`.

    All random numbers are sampled beforehand, for any number of samples: `draws = augment.draw(n, generator)`
    is moved to the device once. Then `augment(images, draws[a:b])` transforms one batch. `augment(images,
    draws[a:b], size)` transforms any number of batches of one size, with the same numbers and fewer
    operations.
    """

    def __init__(self, name: str, px: int, input_px: int, normalise: str) -> None:
        self.name, self.evaluate = name, Evaluate(px, input_px, normalise)

    def draw(self, n: int, generator: Generator) -> Tensor:
        """Random numbers for the transform of n samples: uniform in [0, 1), float32 [n, k]."""
        return torch.rand(n, DRAWS[self.name], generator=generator)

    @torch.no_grad()
    def __call__(self, images: Tensor, draws: Tensor, size: int | None = None) -> Tensor:
        if self.name == "none":
            return self.evaluate(images)
        if self.name == "flip":
            x = self.evaluate(images)
            return x.lerp_(x.flip(3), (draws < 0.5).float()[:, :, None, None])  # faster than where() on a CPU
        with torch.autocast(images.device.type, enabled=False):
            if self.name != "translate":
                return self._jitter(images, draws, size or len(images))
            flip, coin, *place = draws.unbind(1)
            to = self.evaluate.px, self.evaluate.input_px
            return self.evaluate.normalise(translate(images, coin < 0.5, torch.stack(place), flip < 0.5, *to))

    def _jitter(self, images: Tensor, draws: Tensor, size: int) -> Tensor:
        flip, order, gray = draws[:, BOX:-4].unbind(1)
        strength = JITTER[self.name]
        jitter = 2 * strength * draws[:, -4:] - strength
        boxes = random_boxes(draws[:, :BOX], self.evaluate.px)
        x = crop_resize(images, boxes, flip < 0.5, self.evaluate.input_px)
        x = color_jitter(x, 1 + jitter[:, :HUE], jitter[:, HUE], random_orders(order, size), size)
        return self.evaluate.normalise(x, gray < 0.1)


@functools.cache
def constant(values: tuple[Any, ...], device: torch.device) -> Tensor:
    """A tensor that is copied to the device once."""
    return torch.tensor(values, device=device)


def random_boxes(draws: Tensor, px: int) -> Tensor:
    """RandomResizedCrop's boxes for scale .7-1 and ratio 3/4-4/3: [4, B], whole (top, left, height, width).

    `draws` [B, 22]: ten areas, ten ratios, top, left. The first box that fits is used, else the whole image.
    """
    areas, ratios, place = draws[:, :TRIES], draws[:, TRIES:-2], draws[:, -2:].T
    area = px**2 * (0.7 + 0.3 * areas)
    ratio = torch.exp(math.log(4 / 3) * (2 * ratios - 1))
    sides = torch.stack([(area / ratio).sqrt_(), (area * ratio).sqrt_()]).round_()
    sides = F.pad(sides, (0, 1), value=px)
    first = (sides <= px).all(0).byte().argmax(1)
    sides = sides.gather(2, first.expand(2, -1)[:, :, None])[:, :, 0]
    room = px - sides
    return torch.cat([(place * (room + 1)).floor_().minimum(room), sides])


def crop_resize(images: Tensor, boxes: Tensor, mirror: Tensor, size: int, cropped: bool = True) -> Tensor:
    """Crop uint8 images [B, px, px, 3] to `boxes` [4, B] and resize them: [B, 3, size, size] in [0, 1].

    mirror [B]: which images are flipped; cropped: as in `resize_weights`.
    """
    top, left, height, width = boxes
    start = torch.cat([top, torch.where(mirror, left + width, left)])
    length = torch.cat([height, torch.where(mirror, -width, width)])
    weights = resize_weights(start, length, images.shape[1], size, cropped)
    rows, columns = weights.view(2, len(images), *weights.shape[1:])
    return resize(images, rows, columns)


def translate(images: Tensor, moved: Tensor, place: Tensor, mirror: Tensor, px: int, size: int) -> Tensor:
    """Random translation of uint8 [B, px, px, 3] to [B, 3, size, size] in [0, 1], flipped where `mirror` [B].

    Images that `moved` [B] selects are resized to round(9/8 size). They are then cropped at a whole (top,
    left) that `place` [2, B], uniform, chooses. The others are resized.
    """
    large = round(size * 9 / 8)
    corner = (place * (large - size + 1)).floor_().clamp_(max=large - size)
    start = torch.where(moved, corner * (px / large), 0.0)
    length = torch.where(moved, px * size / large, float(px)).expand(2, -1)
    return crop_resize(images, torch.cat([start, length]), mirror, size, cropped=False)


def resize(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Resize uint8 [B, px, px, 3] by row and column weights [B, px, size]: [B, 3, size, size] in [0, 1]."""
    batch, px, size = rows.shape
    x = torch.bmm(images.flatten(2).float().transpose(1, 2), rows / 255).view(batch, px, 3 * size)
    return torch.bmm(x.transpose(1, 2), columns).view(batch, 3, size, size)


def resize_weights(start: Tensor, length: Tensor, px: int, size: int, cropped: bool = True) -> Tensor:
    """Weights [n, px, size] of px pixels in the `size` pixels that a segment of them becomes.

    The filter is antialiased bilinear: a triangle that widens if the segment, start [n] and length [n],
    shrinks. A negative length runs backwards from the start, which mirrors. Pixels outside the segment count
    unless it is `cropped` first.
    """
    direction, length = length.sign()[:, None], length.abs()
    scale = length / size
    reach = scale.clamp(min=1)[:, None]
    target = torch.arange(0.5, size, device=start.device) * scale[:, None]
    pixel = torch.arange(0.5, px, device=start.device)
    pixel = (pixel - start[:, None]) * direction
    if cropped:
        pixel = torch.where((pixel > 0) & (pixel < length[:, None]), pixel, torch.inf)
    distance = ((pixel / reach)[:, :, None] - (target / reach)[:, None, :]).abs_()
    weights = distance.neg_().add_(1).clamp_(min=0)
    return weights.div_(weights.sum(1, keepdim=True))


def random_orders(draws: Tensor, size: int) -> Tensor:
    """ColorJitter's order of operations [n, 4] in batches of `size`.

    The hue of a batch's sample i is at stage i mod 4; the order of the others follows `draws` [n].
    """
    place = torch.arange(len(draws), device=draws.device) % size % 4
    return constant(ORDERS, draws.device)[place, (draws * len(BLEND_ORDERS)).long()]


def color_jitter(x: Tensor, factors: Tensor, turns: Tensor, orders: Tensor, size: int) -> Tensor:
    """ColorJitter of x [B, 3, h, w] in [0, 1], batches of `size`, in the `orders` of `random_orders`.

    `factors` [B, 3] of brightness, contrast and saturation; `turns` [B] of the hue, from -.5 to .5. The first
    three are blends f x + (1 - f) t with black, the mean gray or the pixel's gray as t. They are affine in a
    pixel's colour.
    """
    luma, eye = constant(LUMA, x.device), torch.eye(3, device=x.device)
    factor = F.pad(factors, (0, 1), value=1.0).gather(1, orders)
    to_mean, to_gray = ((1 - factor) * (orders == blend) for blend in (CONTRAST, SATURATION))
    mix = factor[:, :, None, None] * eye + to_gray[:, :, None, None] * luma
    pixels = x.flatten(2)
    for stage in range(4):
        mean = to_mean[:, stage] * (pixels.mean(2) @ luma)
        pixels = torch.baddbmm(mean[:, None, None], mix[:, stage], pixels).clamp_(0, 1)
        turned = pixels.unflatten(0, (-1, size))[:, stage::4]
        turned.copy_(turn_hue(turned, turns.view(-1, size)[:, stage::4]))
    return pixels.view(x.shape)


def turn_hue(x: Tensor, turns: Tensor) -> Tensor:
    """Turn the hue (of HSV) of x [..., 3, n] in [0, 1] by `turns` [...], where 1 is the full circle."""
    red, green, blue = x.unbind(-2)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = high - low
    # sign(high - c) is 0 where channel c is the highest, else 1: lerp chooses by it.
    from_green, from_blue = (blue - red).add_(chroma, alpha=2), (red - green).add_(chroma, alpha=4)
    hue = torch.lerp(from_green, from_blue, (high - green).sign_())
    hue = torch.lerp(green - blue, hue, (high - red).sign_())
    hue = hue.div_(chroma.clamp(min=1e-12)).add_(6 * turns[..., None])
    hue.sub_((hue / 6).floor_(), alpha=6)
    peaks = torch.arange(0, 6, 2, device=x.device)[:, None]
    share = (hue[..., None, :] - peaks).abs_().sub_(3).abs_().sub_(1).clamp_(0, 1)
    return torch.addcmul(low[..., None, :], share, chroma[..., None, :])
