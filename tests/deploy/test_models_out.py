"""The trained network of a run gives the accuracy that the run recorded: as a module, and exported, without fedshift."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file

import fedshift
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import names
from fedshift.deploy.export import FORMATS, describe
from fedshift.deploy.predictor import Predictor
from tests.conftest import clone
from tests.once import once
from tests.verbs import fedshift as verb

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"data.prepare.px": 16, "data.input_px": 16}
WITHOUT_FEDSHIFT = """\
import sys, json, numpy, torch, onnxruntime
images = numpy.load(sys.argv[1])
script = torch.jit.load("model.pt")(torch.from_numpy(images)).detach().numpy()
(onnx,) = onnxruntime.InferenceSession("model.onnx").run(None, {"images": images})
assert not any(name.startswith("fedshift") for name in sys.modules)
numpy.savez("found.npz", script=script, onnx=onnx)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return once(tmp_path_factory, "models-out", lambda root: clone(digits, root))


def images_of(
    run: fedshift.Run, client: int, settings: dict[str, Any] = SMALL
) -> tuple[NDArray[np.uint8], list[str]]:
    """The images that a run tested: of a client, or -1, of the held-out domain; and their classes."""
    data = fedshift.load_data("digits", "ink", settings=settings, root=run.workspace.root)
    split = "target" if client < 0 else "test"
    chosen = data.table[(data.table["split"] == split) & (data.table["client"] == client)]
    return data.images[chosen["sample"].to_numpy()], chosen["class"].tolist()


def recorded(run: fedshift.Run, model: Predictor, member: int) -> float:
    """The accuracy that a run recorded of this model on those images."""
    rows, origin = run.metrics, model.origin
    split = "target" if origin.client < 0 else "test"
    place = {
        "round": origin.round, "model": origin.model, "stage": origin.stage, "client": origin.client,
        "split": split, "metric": "accuracy", "member": member,
    }  # fmt: skip
    for column, value in place.items():
        rows = rows[rows[column] == value]
    (value,) = rows["value"]
    return float(value)


def accuracy(labels: list[str], classes: list[str]) -> float:
    return float(np.mean([label == truth for label, truth in zip(labels, classes, strict=True)]))


@pytest.mark.parametrize("method", names("methods"))
def test_every_method_gives_back_what_was_tested(method: str, home: Path, tmp_path: Path) -> None:
    settings = SMALL | (
        {"method.params.space": "rgb"} if method == "ccst" else {}
    )  # without the encoder's file
    run = fedshift.run(method, "digits", "ink", rounds=2, settings=settings, root=home)
    for of, client in (("unseen", -1), (1, 1)):
        images, classes = images_of(run, client)
        whole = run.model(of)
        members = len(whole.networks)
        alone = [run.model(of, member=member) for member in range(members)]
        found = [accuracy(one.predict(images).labels, classes) for one in alone]
        assert found == pytest.approx([recorded(run, whole, member) for member in range(members)])
        cards = [describe(run.directory, one)["accuracy"][0]["accuracy"] for one in alone]
        assert cards == pytest.approx([100 * value for value in found], abs=0.005)
        folder = tmp_path / str(of)
        run.export(folder, tuple(FORMATS), of)
        facts = json.loads((folder / "model.json").read_text())
        (row,) = facts["accuracy"]
        assert row["accuracy"] == pytest.approx(100 * np.mean(found), abs=0.005)
        assert row["images"] == len(images) and facts["classes"] == whole.classes
        assert row["domains"] == (["ink"] if client < 0 else ["texture"])
        np.save(folder / "images.npy", images.transpose(0, 3, 1, 2))
        command = [sys.executable, "-c", WITHOUT_FEDSHIFT, "images.npy"]
        subprocess.run(command, cwd=folder, check=True, env={"PATH": ""})
        theirs, ours = np.load(folder / "found.npz"), run.predict(images, of)
        for kind in ("script", "onnx"):
            np.testing.assert_allclose(theirs[kind], ours.probabilities, atol=1e-5)
        again = run.model(of)
        again.load_state_dict(
            dict.fromkeys(again.state_dict(), None) | load_file(folder / "model.safetensors")
        )
        assert again.predict(images).labels == ours.labels


@pytest.mark.parametrize(("px", "input_px"), [(32, 16), (32, 20)])
def test_an_input_of_another_size_is_resized_inside(px: int, input_px: int, home: Path) -> None:
    settings = {"data.prepare.px": px, "data.input_px": input_px, "data.normalise": "imagenet"}
    run = fedshift.run("fedavg", "digits", "ink", rounds=3, settings=settings, root=home)
    images, classes = images_of(run, -1, settings)
    found = run.predict(images)
    assert accuracy(found.labels, classes) == pytest.approx(recorded(run, run.model(), 0))
    np.testing.assert_allclose(found.probabilities.sum(1), 1, rtol=1e-5)


def test_predictions_of_files_arrays_and_tensors_agree(home: Path, tmp_path: Path) -> None:
    run = fedshift.run("fedavg", "digits", "ink", rounds=2, settings=SMALL, root=home)
    images, classes = images_of(run, -1)
    images, classes = images[:10], classes[:10]
    for place, (image, name) in enumerate(zip(images, classes, strict=True)):
        (tmp_path / name).mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / name / f"{place}.png")
    files = sorted(tmp_path.rglob("*.png"), key=lambda path: int(path.stem))
    wanted = run.predict(images)
    channels_first = torch.from_numpy(images).permute(0, 3, 1, 2)
    given = (files, list(images), channels_first, channels_first / 255, [Image.open(path) for path in files])
    for one in given:
        np.testing.assert_allclose(run.predict(one).probabilities, wanted.probabilities, atol=1e-6)
    (tmp_path / "broken.png").write_bytes(b"no image")
    done = verb(home, "predict", run.digest, str(tmp_path), "--csv", str(tmp_path / "found.csv"))
    assert done.exit_code == 1 and "broken.png" in done.stderr
    right = sum(label == name for label, name in zip(wanted.labels, classes, strict=True))
    assert f"{right} of 10 images" in done.stderr
    with (tmp_path / "found.csv").open() as file:
        rows = {row["image"]: row for row in csv.DictReader(file)}
    assert {row["label"] for row in rows.values()} == set(wanted.labels)
    first = rows[files[0].relative_to(tmp_path).as_posix()]
    assert [float(first[name]) for name in wanted.classes] == pytest.approx(wanted.probabilities[0], abs=1e-6)


def test_an_opened_image_is_seen_like_its_file(home: Path, tmp_path: Path) -> None:
    run = fedshift.run("fedavg", "digits", "ink", rounds=2, settings=SMALL, root=home)
    ramp = np.linspace(0, 255, 32 * 24).reshape(32, 24)
    Image.fromarray((ramp * 40).astype(np.uint16)).save(tmp_path / "16 bits.png")
    black = np.zeros((32, 24, 4), np.uint8)
    black[..., 3] = ramp
    Image.fromarray(black).save(tmp_path / "transparent.png")
    turned = Image.Exif()
    turned[0x0112] = 6  # orientation
    Image.fromarray(ramp.astype(np.uint8)).save(tmp_path / "turned.jpg", exif=turned)
    files = sorted(tmp_path.iterdir())
    opened = run.predict([Image.open(file) for file in files])
    assert run.predict(Image.open(files[0])).labels == opened.labels[:1]
    np.testing.assert_array_equal(opened.probabilities, run.predict(files).probabilities)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (np.zeros((1, 8, 8, 4), np.uint8), r"image 0: has the shape \(8, 8, 4\)"),
        (np.zeros((1, 0, 8, 3)), r"image 0: has the shape \(0, 8, 3\)"),
        (np.full((1, 8, 8), np.inf), "float64 from inf to inf"),
        ([Image.fromarray(np.full((8, 8), np.nan, np.float32))], "image 0: has values that are not finite"),
        (np.full((1, 8, 8), 300), "int64 from 300 to 300"),
        ([Path("nowhere.png")], "nowhere.png: cannot be read"),
        (np.zeros((8, 9, 3), np.uint8), r"the shape \(8, 9, 3\) of one image"),
        (torch.zeros(3, 8, 9), r"the shape \(3, 8, 9\) of one image"),
    ],
)
def test_what_is_no_image_is_named(images: Any, said: str, home: Path) -> None:
    run = fedshift.run("fedavg", "digits", "ink", rounds=2, settings=SMALL, root=home)
    with pytest.raises(FedshiftError, match=said):
        run.predict(images)


def test_what_is_not_there_is_said(home: Path, tmp_path: Path) -> None:
    run = fedshift.run("fedavg", "digits", "ink", rounds=2, settings=SMALL, root=home)
    with pytest.raises(FedshiftError, match="unknown client 'plian'"):
        run.model("plian")
    with pytest.raises(FedshiftError, match="unknown format 'pickle'"):
        run.export(tmp_path, ["pickle"])
    bare = fedshift.run(
        "fedavg", "digits", "ink", rounds=1, settings=SMALL | {"evaluation.keep": "none"}, root=home
    )
    with pytest.raises(FedshiftError, match="saved no weights"):
        bare.model()
    assert run.predict(np.empty((0, 8, 8, 3), np.uint8)).labels == []
