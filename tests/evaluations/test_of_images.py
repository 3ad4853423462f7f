"""Attention maps and guided backpropagation: by hand on tiny networks, and of a run."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.evaluations.attention import thumbnail
from fedshift.evaluations.base import Trained
from fedshift.evaluations.filters import cut, gradients
from fedshift.methods.stablefdg.attention import itself
from fedshift.models.base import Model
from fedshift.testing.toys import spec
from tests.evaluations.test_contract import restored, table


class Tiny(Model):
    """Two 1x1 convolutions on three colours with a ReLU between: a stage each."""

    name = "tiny"

    def __init__(self) -> None:
        super().__init__(2, 2)
        first, second = nn.Conv2d(3, 2, 1, bias=False), nn.Conv2d(2, 1, 1, bias=False)
        with torch.no_grad():
            first.weight.copy_(torch.tensor([[1.0, 0, 0], [0, -1.0, 2.0]])[:, :, None, None])
            second.weight.copy_(torch.tensor([[3.0, -5.0]])[:, :, None, None])
        self.stages = nn.ModuleDict({"stage1": nn.Sequential(first, nn.ReLU(inplace=True)), "stage2": second})


def test_guided_backpropagation_is_that_by_hand() -> None:
    """At the position with the highest value, z = 3 relu(r) - 5 relu(2 b - g). Plain: 3 to r and, where 2 b > g,
    5 to g, -10 to b; guided: what would pass a ReLU backwards below 0 does not."""
    model = Tiny()
    x = torch.zeros(1, 3, 2, 2)
    x[0, :, 0, 1] = torch.tensor([4.0, 1.0, 1.0])  # 12 - 5: the highest
    x[0, :, 1, 0] = torch.tensor([1.0, 0.0, 0.0])
    guided = gradients(model, "stage2", 0, x)
    expected = torch.zeros_like(x)
    expected[0, :, 0, 1] = torch.tensor([3.0, 0.0, 0.0])
    torch.testing.assert_close(guided, expected)
    leaf = x.clone().requires_grad_()
    model.body(leaf, stop="stage2").amax().backward()
    assert leaf.grad is not None
    assert leaf.grad[0, :, 0, 1].tolist() == [3.0, 5.0, -10.0]
    torch.testing.assert_close(gradients(model, "stage1", 1, x)[0, :, 0, 1], torch.tensor([0.0, -1.0, 2.0]))
    assert all(module.inplace for module in model.modules() if isinstance(module, nn.ReLU))


def test_a_patch_holds_the_pixels_with_a_gradient() -> None:
    image, gradient = torch.arange(48.0).view(3, 4, 4) / 48, torch.zeros(3, 4, 4)
    gradient[0, 1, 2], gradient[1, 2, 3] = 2.0, -1.0
    patch, shown = (np.frombuffer(data, np.uint8).reshape(2, 2, 3) for data in cut(image, gradient, 2))
    assert np.array_equal(patch, (image[:, 1:3, 2:4] * 255).round().permute(1, 2, 0).numpy())
    assert shown[0, 0].tolist() == [255, 128, 128] and shown[1, 1].tolist() == [128, 64, 128]
    gradient[0, 0, 2] = 1.0  # rows 0 to 2, columns 2 and 3
    patch, _ = (np.frombuffer(data, np.uint8).reshape(3, 3, 3) for data in cut(image, gradient, 3))
    assert np.array_equal(patch, (image[:, :3, 1:] * 255).round().permute(1, 2, 0).numpy())
    whole, _ = cut(image, torch.zeros(3, 4, 4), 4)
    assert whole == thumbnail(image, 4)[1]


@pytest.fixture(scope="module")
def attentive(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return restored("stablefdg", tmp_path_factory.mktemp("run"))[1]


def test_attention_is_the_modules(attentive: Trained) -> None:
    frame = table("attention", attentive, "stablefdg", images=2).to_pandas()
    assert frame.groupby("class").size().to_dict() == {"dark": 2, "bright": 2}
    assert (frame["side"] ** 2).tolist() == [len(scores) for scores in frame["scores"]]
    assert np.stack(frame["scores"]).sum(1) == pytest.approx(1)
    (kept,) = (kept for kept in attentive.models() if any(split == "target" for _, split, _ in kept.sets))
    model, samples = attentive.network.bind(kept.row).model.eval(), attentive.samples
    for row in frame.to_dict("records"):
        with torch.no_grad():
            x = samples.evaluate(samples.take(torch.tensor([row["sample"]]))[0])
            scores = model.neck.scores(model.body(x), itself)[0]
        np.testing.assert_allclose(row["scores"], scores, rtol=1e-4, atol=1e-6)
        pixels = (samples.unit(x)[0] * 255).round().byte().permute(1, 2, 0).numpy().tobytes()
        label = int(samples.labels[row["sample"]])
        assert (row["pixels"], row["label"], row["class"]) == (pixels, label, attentive.classes[label])
    one = table("attention", attentive, "stablefdg", classes=["bright"]).to_pandas()
    assert {*one["class"]} == {"bright"}
    with pytest.raises(FedshiftError, match="no class is called 'brihgt'"):
        table("attention", attentive, "stablefdg", classes=["brihgt"])


def test_attention_needs_the_module() -> None:
    with pytest.raises(FedshiftError, match="no attention module"):
        get("evaluations", "attention").check(get("models", "digits_cnn")(2, 32), "here")


def test_filters_show_the_strongest_images_of_each_client(tmp_path: Path) -> None:
    chosen = {"evaluation": {"keep": "clients"}, "local": {"lr": 0.3}}
    _, run = restored("fedrd", tmp_path, spec(federation={"rounds": 2}, **chosen))
    models = run.of_clients("post_train")
    found = table("filters", run, stage="post_train", top=2, filters=2, stages=["stage2"]).to_pandas()
    for (client, layer, unit), part in found.groupby(["client", "layer", "filter"]):
        model = run.network.bind(models[client].row).model.eval()
        sets = [index for _, split, index in models[client].sets if split in ("val", "test")]
        with torch.no_grad():
            x = run.samples.evaluate(run.samples.take(torch.cat(sets))[0])
            values = model.body(x, stop=layer)[:, unit].flatten(1).amax(1)
        best = values.sort(descending=True).values[:2]
        np.testing.assert_allclose(part.sort_values("rank")["response"], best, rtol=1e-4)
