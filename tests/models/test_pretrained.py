"""Published weights from a file in torchvision's format: what they fill, and every way in which a file can be wrong."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch import Tensor
from torchvision.models.vgg import cfgs, make_layers

from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256_file
from fedshift.data.load import load
from fedshift.data.partition import partition
from fedshift.federation.layout import initial
from fedshift.models.base import Model
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.training.assemble import assemble, read

pytestmark = pytest.mark.slow

PUBLISHED = [
    name for name in registry.names("models")
    if any(":" not in file for file in registry.get("models", name).weights.values())
]  # fmt: skip
IMAGENET = {"dog": {*range(151, 269)}, "elephant": {101, 385, 386}, "guitar": {402, 546}, "horse": {339}}


def theirs(name: str) -> dict[str, Tensor]:
    """What torchvision's file holds, drawn: for 1,000 classes, with DenseNet's keys as they were when it was published."""
    torch.manual_seed(1)
    if name == "vgg":
        return {f"features.{key}": value for key, value in make_layers(cfgs["A"], True).state_dict().items()}
    make = {"mobilenet": "mobilenet_v2", "densenet": "densenet121"}.get(name, name)
    state = getattr(torchvision.models, make)(weights=None).state_dict()
    for key in list(state):
        if ".denselayer" in key:
            for part in ("norm1", "norm2", "conv1", "conv2"):
                if f".{part}." in key:
                    state[key.replace(part, f"{part[:-1]}.{part[-1]}")] = state.pop(key)
    return state


def save(folder: Path, name: str, state: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state in a file that is named by its hash, which the network's class then declares."""
    folder.mkdir(exist_ok=True)
    torch.save(state, folder / "new.pth")
    path = folder / f"{name}-{sha256_file(folder / 'new.pth')[:8]}.pth"
    (folder / "new.pth").rename(path)
    monkeypatch.setattr(registry.get("models", name), "weights", {"imagenet": path.name})
    monkeypatch.setenv("FEDSHIFT_WEIGHTS", str(folder))
    return path


def meta(name: str, px: int = 64) -> Model:
    with torch.device("meta"):
        return registry.get("models", name)(7, px)


@pytest.mark.parametrize("name", PUBLISHED)
def test_start_is_theirs_but_for_the_head(name, tmp_path, monkeypatch):
    state = theirs(name)
    path = save(tmp_path, name, state, monkeypatch)
    model, layout, drawn = initial(lambda: registry.get("models", name)(7, 64), seed=0)
    weights = read(meta(name), "imagenet")
    assert weights.sha256 == sha256_file(path)
    row = weights.start(layout, drawn.clone())
    head = layout.under("head").mask
    assert torch.equal(row[head], drawn[head])
    filled = {entry.name for entry in layout.entries if not entry.name.startswith("head.")}
    assert set(weights.entries) == filled
    used = {model.published(entry): value for entry, value in weights.entries.items()}
    assert all(torch.equal(state[key], value) for key, value in used.items())
    classifier = ("fc.", "classifier.")
    assert set(used) == {
        key for key in state if not key.startswith(classifier) and not key.endswith("num_batches_tracked")
    }


def test_another_file_of_that_name_is_refused(tmp_path, monkeypatch):
    path = save(tmp_path, "mobilenet", theirs("mobilenet"), monkeypatch)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FedshiftError, match=f"is another file: .* not {path.stem.rpartition('-')[2]}"):
        read(meta("mobilenet"), "imagenet")


def test_file_without_an_entry_is_refused(tmp_path, monkeypatch):
    state = theirs("mobilenet")
    state["features.3.conv.2.weight"] = state["features.3.conv.2.weight"][1:]
    save(tmp_path, "mobilenet", state, monkeypatch)
    expected = (
        r"has no 'features.3.conv.2.weight' of shape \(24, 144, 1, 1\) for 'stages.stage1.3.conv.2.weight'"
    )
    with pytest.raises(FedshiftError, match=expected):
        read(meta("mobilenet"), "imagenet")


def test_method_that_replaces_a_published_layer_is_told(tmp_path, monkeypatch):
    save(tmp_path, "mobilenet", theirs("mobilenet"), monkeypatch)

    def build():
        model = registry.get("models", "mobilenet")(7, 64)
        model.stages["stage4"] = torch.nn.Conv2d(96, 1280, 1)
        return model

    _, layout, row = initial(build, seed=0)
    with pytest.raises(FedshiftError, match=r"has 'stages.stage4.14.* which the method replaces"):
        read(meta("mobilenet"), "imagenet").start(layout, row)


def spec(model: str, init: str) -> RunSpec:
    return resolve(toys.spec(data={"target": "texture"}, model={"name": model, "init": init}))


def test_run_starts_from_them(project, tmp_path, monkeypatch):
    path = save(tmp_path / "weights", "mobilenet", theirs("mobilenet"), monkeypatch)
    run = spec("mobilenet", "imagenet")
    partition(Workspace(project), run)
    data = load(Workspace(project), run)
    federation, hashes = assemble(run, data, torch.device("cpu"))
    drawn, scratch = assemble(spec("mobilenet", "scratch"), data, torch.device("cpu"))
    assert hashes == {**scratch, "start": sha256_file(path)}
    named, other = (one.layout.named(one.state.row) for one in (federation, drawn))
    for entry in ("head.weight", "head.bias"):
        assert torch.equal(named[entry], other[entry])
    assert torch.equal(named["stages.stem.0.0.weight"], torch.load(path)["features.0.0.weight"])


def test_an_installed_package_is_a_source_of_weights(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real file: its network tells dogs, elephants, guitars and horses of PACS's photographs apart at 224 px."""
    model = registry.get("models", "efficientnet_lite0")(1000, 224)
    weights = read(model, "imagenet")
    assert {*model.state_dict()} - {*weights.entries} - {"head.weight", "head.bias"} == {
        name for name in model.state_dict() if name.endswith("num_batches_tracked")
    }
    head = torch.load(weights.path, weights_only=True)
    model.load_state_dict(
        model.state_dict()
        | weights.entries
        | {f"head.{part}": head[f"_fc.{part}"] for part in ("weight", "bias")}
    )
    model.eval()
    right = count = 0
    for name, labels in IMAGENET.items():
        (folder,) = (path for path in (shared / "data" / "pacs").rglob(f"photo/{name}") if path.is_dir())
        for path in sorted(folder.iterdir())[::10]:
            pixels = np.asarray(Image.open(path).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR))
            x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 127.5 - 1
            with torch.no_grad():
                right, count = right + (int(model(x).logits.argmax()) in labels), count + 1
    assert right / count == pytest.approx(0.838, abs=0.06)  # of all 776: 0.8376
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FedshiftError, match=r'pip install "fedshift\[pretrained\]"'):
        read(model, "imagenet")
