"""Augmentation in batch equals torchvision's v2 operations, one by one exactly and together in distribution."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as V

from fedshift.data import augment as A
from fedshift.data.augment import Augment, Evaluate

torch.set_num_threads(1)


def noise(n: int, px: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (n, px, px, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3)
    )


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def chw(images: torch.Tensor) -> torch.Tensor:
    return images.permute(0, 3, 1, 2).float() / 255


class TestEvaluate:
    @pytest.mark.parametrize(("px", "normalise"), [(32, "unit"), (45, "half"), (20, "imagenet")])
    def test_equals_torchvision(self, px, normalise):
        images = noise(3, px)
        x = Evaluate(px, 32, normalise)(images)
        expected = V.normalize(V.resize(chw(images), [32, 32], antialias=True), *A.NORMALISE[normalise])
        assert x.is_contiguous(memory_format=torch.channels_last) and x.dtype == torch.float32
        torch.testing.assert_close(x, expected, rtol=0, atol=1e-5)

    def test_unit_is_exact(self):
        images = noise(2, 8)
        assert torch.equal(Evaluate(8, 8, "unit")(images), chw(images))


class TestOperations:
    @pytest.mark.parametrize(("px", "size"), [(32, 32), (64, 32), (40, 17)])
    def test_crop_and_flip(self, px, size):
        n = 40
        images, draws = noise(n, px), torch.rand(n, A.BOX, generator=seeded())
        boxes, mirror = A.random_boxes(draws, px), torch.arange(n) % 2 == 0
        ours = A.crop_resize(images, boxes, mirror, size)
        for i, (top, left, height, width) in enumerate(boxes.int().T.tolist()):
            piece = V.resized_crop(chw(images)[i], top, left, height, width, [size, size], antialias=True)
            expected = V.hflip(piece) if mirror[i] else piece
            torch.testing.assert_close(ours[i], expected, rtol=0, atol=1e-5)

    @pytest.mark.parametrize(("px", "size"), [(32, 32), (36, 32), (64, 32), (20, 32)])
    def test_translation(self, px, size):
        n, large = 60, round(size * 9 / 8)
        images, place = noise(n, px), torch.rand(2, n, generator=seeded())
        moved, mirror = torch.arange(n) % 3 != 0, torch.arange(n) % 2 == 0
        ours = A.translate(images, moved, place, mirror, px, size)
        corners = (place * (large - size + 1)).floor().int().T.tolist()
        assert {corner for pair in corners for corner in pair} == set(range(large - size + 1))
        for i, (top, left) in enumerate(corners):
            to = large if moved[i] else size
            whole = V.resize(chw(images)[i], [to, to], antialias=True)
            piece = V.crop(whole, top, left, size, size) if moved[i] else whole
            expected = V.hflip(piece) if mirror[i] else piece
            torch.testing.assert_close(ours[i], expected, rtol=0, atol=1e-5)

    def test_color_jitter_in_every_order(self):
        n = 96
        x = chw(noise(n, 12))
        u = torch.rand(n, 4, generator=seeded(1))
        factors, turns = 0.4 + 1.2 * u[:, :3], u[:, 3] - 0.5
        orders = A.random_orders(((torch.arange(n) // 4) % 6 + 0.5) / 6, n)
        assert len({tuple(order) for order in orders.tolist()}) == 24
        ours = A.color_jitter(x, factors, turns, orders, n)
        for i in range(n):
            expected = reference_jitter(x[i], *factors[i].tolist(), turns[i].item(), orders[i].tolist())
            torch.testing.assert_close(ours[i], expected, rtol=0, atol=1e-5)

    def test_hue_of_gray_black_and_pure_colours(self):
        colours = torch.tensor(
            [[0.5] * 3, [0.0] * 3, [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]]
        ).T
        turned = A.turn_hue(colours[None].repeat(3, 1, 1), torch.tensor([1 / 3, -1 / 3, 0]))
        for k, turn in enumerate([1 / 3, -1 / 3, 0]):
            expected = V.adjust_hue(colours[:, None].contiguous(), turn)[:, 0]
            torch.testing.assert_close(turned[k], expected, rtol=0, atol=1e-5)
        assert torch.allclose(turned[0, :, 2], torch.tensor([0.0, 1, 0]), atol=1e-5)  # red turns to green

    def test_gray_and_normalise(self):
        x = chw(noise(4, 6))
        gray = torch.tensor([True, False, True, False])
        ours = Evaluate(6, 6, "imagenet").normalise(x, gray)
        mixed = torch.where(gray[:, None, None, None], V.rgb_to_grayscale(x, 3), x)
        expected = V.normalize(mixed, *A.NORMALISE["imagenet"])
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)

    def test_orders_are_uniform_and_hue_follows_the_place_in_the_batch(self):
        last = torch.full((4,), 1 - 2**-24)  # the largest number that torch.rand draws
        assert A.random_orders(last, 4)[3].tolist() == [2, 1, 0, 3]
        orders = A.random_orders(torch.rand(9_600, generator=seeded()), 9_600)
        assert torch.equal((orders == A.HUE).int().argmax(1), torch.arange(9_600) % 4)
        assert torch.equal(orders.sort(1).values, torch.arange(4).expand(9_600, 4))
        _, counts = orders.unique(dim=0, return_counts=True)
        assert len(counts) == 24 and counts.min() > 320 and counts.max() < 480  # 400 each, sd 20


def reference_jitter(x, brightness, contrast, saturation, turn, order):
    operations = [
        lambda z: V.adjust_brightness(z, brightness),
        lambda z: V.adjust_contrast(z, contrast),
        lambda z: V.adjust_saturation(z, saturation),
        lambda z: V.adjust_hue(z, turn),
    ]
    for operation in order:
        x = operations[operation](x)
    return x


class TestBoxes:
    def test_first_fitting_try_counts_else_the_whole_image(self):
        draws = torch.zeros(3, A.BOX)
        draws[:, :10] = 1.0  # the area of the whole image ...
        draws[:, 10:20] = 1.0  # ... at ratio 4/3 does not fit
        draws[1, [4, 14]] = torch.tensor([0.0, 0.5])  # the fifth try: area .7, a square
        draws[2, [4, 14]] = torch.tensor([0.0, 0.5])
        draws[2, 20:] = torch.tensor([0.5, 1 - 2**-24])
        side = round(math.sqrt(0.7) * 64)
        boxes = A.random_boxes(draws, 64).T.tolist()
        assert boxes[0] == [0, 0, 64, 64]
        assert boxes[1] == [0, 0, side, side]
        assert boxes[2] == [(64 - side + 1) // 2, 64 - side, side, side]  # never outside the image


class TestAugment:
    def test_draws_do_not_depend_on_their_number_and_none_draws_nothing(self):
        augment = Augment("domainbed", 16, 16, "unit")
        assert torch.equal(augment.draw(5, seeded()), augment.draw(9, seeded())[:5])
        assert Augment("none", 16, 16, "unit").draw(5, seeded()).shape == (5, 0)

    @pytest.mark.parametrize("size", [16, 12])
    def test_flip(self, size):
        images, augment = noise(64, 16), Augment("flip", 16, size, "unit")
        draws = augment.draw(64, seeded())
        plain, mirror = Evaluate(16, size, "unit")(images), draws[:, 0] < 0.5
        assert 20 < mirror.sum() < 44
        x = augment(images, draws)
        assert torch.equal(x[mirror], plain[mirror].flip(3)) and torch.equal(x[~mirror], plain[~mirror])
        assert x.is_contiguous(memory_format=torch.channels_last)

    def test_translate_flips_and_moves_half_of_the_images(self):
        images, augment = noise(400, 16), Augment("translate", 16, 16, "imagenet")
        draws = augment.draw(400, seeded())
        x, plain = augment(images, draws), Evaluate(16, 16, "imagenet")(images)
        flip, moved = draws[:, 0] < 0.5, draws[:, 1] < 0.5
        still = torch.where(flip[:, None, None, None], plain.flip(3), plain)
        same = (x - still).abs().amax((1, 2, 3)) < 1e-4
        assert torch.equal(same, ~moved)
        assert 150 < int(moved.sum()) < 250 and 150 < int(flip.sum()) < 250

    @pytest.mark.parametrize(("name", "strength"), A.JITTER.items())
    def test_distribution_equals_torchvisions(self, name, strength):
        """One colourful image, many draws."""
        n, image = 600, torch.zeros(12, 12, 3, dtype=torch.uint8)
        image[:6] = torch.tensor([250, 130, 20], dtype=torch.uint8)
        image[6:, :4] = torch.tensor([20, 40, 240], dtype=torch.uint8)
        image[6:, 4:] = torch.tensor([240, 240, 90], dtype=torch.uint8)
        jitter = [v2.ColorJitter(*[strength] * 4), v2.RandomGrayscale(0.1)]
        parts = [v2.RandomResizedCrop(12, scale=(0.7, 1.0)), v2.RandomHorizontalFlip(), *jitter]
        reference = repeated(v2.Compose(parts), chw(image[None])[0], n)
        augment = Augment(name, 12, 12, "unit")
        draws = augment.draw(n, seeded(5))
        assert agreement(augment(image.expand(n, -1, -1, -1), draws), reference) > 0.002


def repeated(transform, image: torch.Tensor, n: int) -> torch.Tensor:
    torch.manual_seed(11)
    return torch.stack([transform(image) for _ in range(n)])


def agreement(a: torch.Tensor, b: torch.Tensor) -> float:
    """The least p-value of two-sample Kolmogorov-Smirnov tests over pixels, channels and colour statistics."""

    def statistics(x: torch.Tensor) -> np.ndarray:
        pixels = x[:, :, [1, 10, 10], [10, 1, 10]].flatten(1)
        spread = (x.amax(1) - x.amin(1)).mean((1, 2))
        red_over_blue = (x[:, 0] - x[:, 2])[:, [1, 10], [6, 1]]
        columns = torch.cat([pixels, x.mean((2, 3)), x.std((2, 3)), spread[:, None], red_over_blue], 1)
        return columns.round(decimals=4).T.numpy()  # many values are exactly 0 or 1, up to an ulp

    pairs = zip(statistics(a), statistics(b), strict=True)
    return min(float(ks_2samp(one, other).pvalue) for one, other in pairs)
