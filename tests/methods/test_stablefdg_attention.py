"""StableFDG: attention in training and in evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.registry import get
from fedshift.federation.client import Client
from fedshift.federation.layout import initial
from fedshift.federation.loop import Federation, cross_entropy
from fedshift.methods import stablefdg
from fedshift.methods.stablefdg.attention import attention, highlighted, partners
from fedshift.testing.toys import finish, images, method, recorded, spec
from tests.methods.stablefdg_toys import rng


def federation(labels: list[int], p: float = 0.0, **hp: Any) -> Federation:
    """One client whose training samples have these labels, in one batch; without Steps 1-5 if p is 0."""
    samples, clients, target = images(1, [(len(labels), 2, 2)])
    samples.host_labels[: len(labels)] = samples.labels[: len(labels)] = torch.tensor(labels)
    run = spec(local={"batch": len(labels)}, federation={"rounds": 1})
    model = get("models", "digits_cnn")
    return Federation(run, method("stablefdg", p=p, **hp), lambda: model(3, 32), samples, clients, target)


def brute(
    model: Any, x: Tensor, y: Tensor, kind: str, single: str = "mixed", aux: Tensor | None = None
) -> Tensor:
    """Eq. 6-8 sample by sample with the whole similarity matrix; aux: mean queries by class for samples alone in theirs."""
    z = model.body(x)
    k, q = (F.normalize(one(z).flatten(2), dim=1) for one in (model.neck.key, model.neck.query))
    features = []
    for i, label in enumerate(y.tolist()):
        same = [j for j in range(len(y)) if y[j] == label]
        j = same[(same.index(i) + 1) % len(same)]
        theirs = q[j] if j != i or aux is None else aux[label][:, None].expand_as(q[j])
        query = {"self": q[i], "cross": theirs, "both": (theirs + q[i]) / 2}[kind]
        if j == i and single == "cross" and kind == "both":
            query = theirs
        scores = (query.T @ k[i]).mean(0).softmax(0)
        features.append(torch.cat([z[i].mean((1, 2)), z[i].flatten(1) @ scores]))
    return cross_entropy(model.head(torch.stack(features)), y)


@pytest.mark.parametrize("kind", ["both", "self", "cross"])
@pytest.mark.parametrize("single", ["mixed", "cross"])
def test_training_queries(kind: str, single: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of three, two and one sample; the one alone asks the auxiliary batch."""
    made = federation([0, 1, 0, 2, 1, 0], attention=kind, singletons=single)
    seen: list[tuple[Tensor, Tensor]] = []
    asked: list[int] = []
    own_images = stablefdg.one_per_class

    def once(C: Client) -> tuple[Tensor, Tensor]:
        got = own_images(C)
        asked.append(len(got[1]))
        torch.testing.assert_close(got[1], torch.arange(3))
        aux.append(got[0])
        return got

    def loss(self: Any, C: Client, x: Tensor, y: Tensor) -> Tensor:
        expected_aux = None
        got = original(self, C, x, y)
        if aux:
            z = C.model.body(aux[0])
            expected_aux = F.normalize(C.model.neck.query(z).flatten(2), dim=1).mean(2)
        seen.append((got, brute(C.model, x, y, kind, single, expected_aux)))
        return got

    aux: list[Tensor] = []
    original = type(made.method).loss
    monkeypatch.setattr(stablefdg, "one_per_class", once)
    monkeypatch.setattr(type(made.method), "loss", loss)
    finish(made)
    assert len(seen) == 1
    torch.testing.assert_close(*seen[0])
    assert asked == ([] if kind == "self" else [3])


def test_a_partner_is_the_next_other_image_of_the_class() -> None:
    """Rows 0, 2 and 5 show one image, 1 and 3 another; 4 is a second one of their class, 6 of a third class."""
    labels, source = torch.tensor([0, 1, 0, 1, 1, 0, 2]), torch.tensor([0, 1, 0, 1, 4, 0, 6])
    other, alone = partners(labels, source)
    assert other.tolist() == [0, 4, 2, 4, 1, 5, 6]
    assert alone.tolist() == [True, False, True, False, False, True, True]
    other, alone = partners(labels, torch.arange(7))
    assert other.tolist() == [2, 3, 5, 4, 1, 0, 6]
    assert alone.tolist() == [False] * 6 + [True]


def test_copies_of_an_image_are_no_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six images and six copies, four rows a class: those of the class of one image ask the auxiliary batch, all of them."""
    calls = recorded(stablefdg, "partners", monkeypatch)
    asked = recorded(stablefdg, "one_per_class", monkeypatch)
    finish(federation([0, 1, 0, 2, 1, 0], p=1.0))
    ((labels, source, (other, alone)),) = calls
    assert labels.bincount().tolist() == [4, 4, 4] and source.unique().tolist() == list(range(6))
    assert alone.equal(labels == 2)
    assert labels[other].equal(labels)
    assert source[other].ne(source).equal(~alone)
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["densenet", "digits_dg_cnn", "mobilenet", "resnet18", "vgg"])
def test_embeddings_start_so_on_every_network(name: str) -> None:
    build = get("models", name)
    model, *_ = initial(lambda: method("stablefdg", d=30).model(build(7, max(32, build.min_px))), 0)
    for theta in (model.neck.query, model.neck.key):
        assert theta.weight.std().item() == pytest.approx((2 / 90) ** 0.5, rel=0.05)
        assert theta.bias.eq(0).all()


def test_embeddings_and_classifier_start_as_in_the_released_code() -> None:
    """One convolution of 3 d outputs there: normal, variance 2 / (3 d), no bias; the classifier is torch's own linear map."""
    build = get("models", "resnet18")
    model, *_ = initial(lambda: method("stablefdg", d=30).model(build(7, 32)), 0)
    for theta in (model.neck.query, model.neck.key):
        assert theta.weight.std().item() == pytest.approx((2 / 90) ** 0.5, rel=0.02)
        assert theta.bias.eq(0).all()
    assert not model.neck.query.weight.equal(model.neck.key.weight)
    bound = 1024**-0.5
    assert model.head.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert model.head.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_no_auxiliary_batch_without_a_sample_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = federation([0, 1, 0, 1, 1, 0])
    monkeypatch.setattr(stablefdg, "one_per_class", lambda C: pytest.fail("not needed"))
    finish(made)


def test_attention_trains() -> None:
    made = federation([0, 1, 0, 2, 1, 0])
    before = {name: value.clone() for name, value in made.layout.named(made.state.row).items()}
    after = made.layout.named(finish(made).state.row)
    for name in ("neck.query.weight", "neck.key.weight", "head.weight"):
        assert not after[name].equal(before[name])


def test_evaluation_is_self_attention_with_doubled_features() -> None:
    made = federation([0, 1, 0, 2, 1, 0])
    model = made.worker.network("model").bind(made.state.row).model.eval()
    x = torch.randn(5, 3, 32, 32, generator=rng())
    z, out = model.body(x), model(x)
    assert out.feature.shape == (5, 128)
    torch.testing.assert_close(out.feature[:, :64], z.mean((2, 3)))
    k, q = (F.normalize(one(z).flatten(2), dim=1) for one in (model.neck.key, model.neck.query))
    torch.testing.assert_close(out.feature[:, 64:], highlighted(attention(q.mean(2), k), z))
