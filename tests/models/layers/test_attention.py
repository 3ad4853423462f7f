"""StableFDG's highlighter: sums, limits, against the full similarity matrix, and how it sits in a network."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.methods.stablefdg.attention import (
    ConvolutionHighlighter,
    Highlighter,
    attention,
    highlighted,
    partners,
)
from fedshift.models.layers.blocks import GlobalAverage


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


def whole(q_j: Tensor, q_i: Tensor, k_i: Tensor) -> Tensor:
    """Eq. 8 with the similarity matrix [hw, hw]: queries and keys [d, hw]."""
    return (((q_j + q_i) / 2).T @ k_i).mean(0).softmax(0)


def test_mean_queries_give_what_the_whole_similarity_matrix_gives() -> None:
    q, k = maps(2, 5, 9), maps(2, 5, 9)
    got = attention((q.mean(2)[[1, 0]] + q.mean(2)) / 2, k)
    for i, j in ((0, 1), (1, 0)):
        torch.testing.assert_close(got[i], whole(q[j], q[i], k[i]))


def test_scores_sum_to_one() -> None:
    assert attention(maps(4, 3), maps(4, 3, 6)).sum(1).tolist() == pytest.approx([1.0] * 4)


def test_equal_scores_give_the_global_average() -> None:
    z = maps(3, 8, 4, 4)
    got = highlighted(attention(torch.ones(3, 2), torch.ones(3, 2, 16)), z)
    torch.testing.assert_close(got, z.mean((2, 3)))


def test_partners_are_the_next_of_the_class() -> None:
    other, alone = partners(torch.tensor([0, 1, 0, 0, 2, 2]), torch.arange(6))
    assert other.tolist() == [2, 1, 3, 0, 5, 4]
    assert alone.tolist() == [False, True, False, False, False, False]


def test_it_adds_the_highlighted_feature_to_the_neck() -> None:
    neck = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16, 5))
    made = Highlighter(neck, 8, 3, "cosine")
    z = maps(2, 8, 4, 4)
    out = made(z)
    assert torch.equal(out[:, :5], neck(z))
    k = F.normalize(made.key(z).flatten(2), dim=1)
    q = F.normalize(made.query(z).flatten(2), dim=1)
    for i in range(2):
        scores = whole(q[i], q[i], k[i])
        torch.testing.assert_close(out[i, 5:], z[i].flatten(1) @ scores)


def test_names_of_the_neck_stay() -> None:
    neck = nn.Sequential(nn.Flatten(), nn.Linear(8, 5))
    names = [name for name, _ in Highlighter(neck, 8, 3, "dot").named_parameters()]
    assert names[:2] == ["1.weight", "1.bias"]
    assert names[2:] == ["query.weight", "query.bias", "key.weight", "key.bias"]


def test_the_dot_product_depends_on_the_length_and_the_cosine_does_not() -> None:
    z = maps(2, 8, 4, 4).double()
    changed = {}
    for similarity in ("dot", "cosine"):
        made = Highlighter(GlobalAverage(), 8, 3, similarity).double()
        before = made(z)
        with torch.no_grad():
            made.query.weight.mul_(3)
            made.query.bias.mul_(3)
        changed[similarity] = not torch.allclose(before, made(z))
    assert changed == {"dot": True, "cosine": False}


def test_the_convolution_baseline_has_the_same_size() -> None:
    def size(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    assert size(Highlighter(GlobalAverage(), 512, 30, "cosine")) == 30_780
    assert size(ConvolutionHighlighter(GlobalAverage(), 512, 60)) == 30_841
    made, z = ConvolutionHighlighter(GlobalAverage(), 8, 4), maps(2, 8, 4, 4)
    assert made.scores(z, lambda query: query).sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert made(z).shape == (2, 16)
