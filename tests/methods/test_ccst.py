"""CCST's rendering: AdaIN against the reference, what a run trains on, and weights that are not there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256_file
from fedshift.data.load import load, load_rendered
from fedshift.data.partition import partition
from fedshift.data.renderings import ccst as networks
from fedshift.data.renderings.ccst import CCST, Params, adain, batch_moments, image_statistics, overall_style
from fedshift.data.scheme import generator, permutation
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.weights import FOLDER
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.testing.toys import images
from fedshift.training.assemble import assemble
from fedshift.training.provide import remove_damaged
from tests.reference import Reference

# SHA-256 of the files of pytorch-AdaIN's release v0.0.0
PUBLISHED = (
    "804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a",
    "379ca41d59f3a37eed3599bbbc2560c19da5c458870a5ffd3a9dd41aa88f9472",
)


@pytest.mark.parity
def test_adain_and_overall_style() -> None:
    ref = Reference("ccst_adain_official.npz")
    content, style = ref.given("content"), ref.given("style")
    ref.equals("adain", adain(content, *image_statistics(style)))
    ref.equals("adain_stat", adain(content, ref.given("stat_mean"), ref.given("stat_std")))
    bank = ref.given("bank")
    mean, deviation = overall_style([batch_moments(bank[:2]), batch_moments(bank[2:])])
    ref.equals("overall_mean", mean)
    ref.equals("overall_std", deviation)


def spec(**hp: Any) -> RunSpec:
    method = {"name": "ccst", "params": {"space": "rgb", **hp}}
    rest: dict[str, Any] = {"local": {"batch": 32}, "federation": {"rounds": 1}}
    return resolve(toys.spec(data={"target": "ink", "normalise": "half"}, method=method, **rest))


def render(workspace: Workspace, run: RunSpec) -> Path:
    load(workspace, run)
    return workspace.rendered(run.rendered_name)


def test_a_run_trains_on_renderings_and_is_tested_on_images(project: Path) -> None:
    workspace, run = Workspace(project), spec(styles=2)
    partition(workspace, run)
    federation, hashes = assemble(run, load(workspace, run), torch.device("cpu"))
    folder = workspace.rendered(run.rendered_name)
    rendered, made_from, content = load_rendered(folder)
    assert hashes["rendered"] == content
    plain = run.model_copy(update={"method": run.method.model_copy(update={"name": "fedavg", "params": {}})})
    fedavg, _ = assemble(plain, load(workspace, plain), torch.device("cpu"))
    n = len(fedavg.worker.samples.labels)
    for ours, theirs in zip(federation.clients, fedavg.clients, strict=True):
        assert len(ours.train) == 2 * len(theirs.train)
        assert ours.train.min() >= n
        assert set(made_from[ours.train - n].tolist()) == set(theirs.train.tolist())
        assert ours.val.equal(theirs.val)
        assert ours.test.equal(theirs.test)
        labels = federation.worker.samples.labels
        assert labels[ours.train].equal(labels[torch.from_numpy(made_from)[ours.train - n]])
    assert federation.worker.samples.pixels[n:].equal(torch.from_numpy(rendered))


def test_a_changed_rendering_is_noticed(project: Path) -> None:
    workspace, run = Workspace(project), spec(styles=1)
    partition(workspace, run)
    images = render(workspace, run) / "images.npy"
    data = bytearray(images.read_bytes())
    data[-1] ^= 1
    images.write_bytes(data)
    with pytest.raises(FedshiftError, match=r"does not match its rendered.json\n  Remove "):
        load_rendered(images.parent)


def test_renderings_of_other_images_or_partitions_are_noticed(project: Path) -> None:
    workspace, run = Workspace(project), spec(styles=1)
    partition(workspace, run)
    folder = render(workspace, run)
    assert remove_damaged(workspace, run) == []
    facts = json.loads((folder / "rendered.json").read_text())
    for name in ("prepared", "partition"):
        (folder / "rendered.json").write_text(json.dumps({**facts, name: "0" * 64}))
        with pytest.raises(FedshiftError, match="was made from other images"):
            load(workspace, run)
    assert remove_damaged(workspace, run) == [folder]


def test_more_styles_than_clients_and_absent_weights_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(project)
    partition(workspace, spec())
    with pytest.raises(FedshiftError, match="4 styles of 3 clients"):
        render(workspace, spec(styles=4))
    monkeypatch.setenv(FOLDER, str(project / "none"))
    with pytest.raises(FedshiftError, match=r"/none/vgg_normalised.pth: .* are not there") as error:
        render(workspace, spec(space="vgg"))
    assert not error.value.retry  # only the file in its place helps
    assert not workspace.rendered(spec(space="vgg").rendered_name).exists()


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Drawn weights in files like the published ones, as parameters: the encoder's goes on beyond relu4_1, what it holds further is left."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    torch.manual_seed(0)
    for part, net in (("encoder", networks.encoder()), ("decoder", networks.decoder())):
        # torch's start dies out over the layers
        grown = (value * 6**0.5 for value in net.state_dict().values())
        state = {f"{i}.weight": value for i, value in enumerate(grown)}
        further = {"more": torch.zeros(5)} if part == "encoder" else {}
        torch.save({**state, **further}, tmp_path / networks.FILES[part])
    return {part: sha256_file(tmp_path / file) for part, file in networks.FILES.items()}


def toy(px: int = 32) -> tuple[Any, Any, pd.DataFrame]:
    """Two clients of three and five images, and their table."""
    samples, clients, _ = toys.images(2, [(3, 1, 1), (5, 1, 1)])
    rows = [
        pd.DataFrame({"sample": one.train, "client": k, "split": "train"}) for k, one in enumerate(clients)
    ]
    return samples.pixels[:, :px, :px].contiguous(), clients, pd.concat(rows)


def test_declared_weights_are_used(weights: dict[str, str]) -> None:
    pixels, clients, table = toy()
    rendering = spec(space="vgg", styles=2, **weights).rendering
    rendered = list(rendering.render(pixels.numpy(), table, 0))
    net = networks.Stylizer(**{f"{part}_hash": value for part, value in weights.items()})
    one, other = (pixels[one.train].permute(0, 3, 1, 2).float() / 255 for one in clients)
    mean, deviation = overall_style([batch_moments(net.encode(other))])
    style = mean.float()[:, None, None], deviation.float()[:, None, None]
    moved = net.decode(adain(net.encode(one), *style))
    expected = (moved.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1)
    assert expected.unique().numel() > 5
    for sample in range(3):
        images = [torch.from_numpy(image) for number, image in rendered if number == sample]
        assert len(images) == 2
        assert sum(image.equal(pixels[sample]) for image in images) == 1
        assert sum(image.equal(expected[sample]) for image in images) == 1


@pytest.mark.parametrize("px", [16, 29])
def test_a_rendered_image_has_its_contents_size(weights: dict[str, str], px: int) -> None:
    """The decoder's image is a multiple of 8 wide, FedRD's PACS is 227."""
    pixels, _, table = toy(px)
    rendering = spec(space="vgg", styles=2, **weights).rendering
    shapes = {image.shape for _, image in rendering.render(pixels.numpy(), table, 0)}
    assert shapes == {(px, px, 3)}


def test_another_file_than_declared_is_refused(
    project: Path, weights: dict[str, str], tmp_path: Path
) -> None:
    workspace, run = Workspace(project), spec(space="vgg", encoder=weights["encoder"])
    partition(workspace, run)
    with pytest.raises(FedshiftError) as error:
        render(workspace, run)
    path = tmp_path / "decoder.pth"
    assert str(error.value).startswith(
        f"{path}: is another file: its SHA-256 is {weights['decoder']}, not {PUBLISHED[1]}\n"
    )
    torch.save({"0.weight": torch.zeros(3)}, path)
    with pytest.raises(FedshiftError, match="does not hold AdaIN's layers"):
        networks.Stylizer(weights["encoder"], sha256_file(path))


def test_other_weights_are_another_run_and_another_folder() -> None:
    others = {"encoder": "0" * 64, "decoder": "f" * 64}
    runs = [spec(), spec(space="vgg"), *(spec(space="vgg", **{part: others[part]}) for part in others)]
    assert len({run.run_id for run in runs}) == len(runs)
    assert len({run.rendered_name for run in runs}) == len(runs)
    # A digest leaves defaults out: no published hash may ever change, and runs without weights keep their names.
    assert spec(space="vgg", encoder=PUBLISHED[0], decoder=PUBLISHED[1]) == runs[1]
    assert [run.run_id for run in runs[:2]] == ["6e6c55950235ed89", "56f27c53c183844b"]
    with pytest.raises(FedshiftError, match="'encoder' of ccst"):
        spec(space="vgg", encoder="804ca283")


def test_clients_count_the_same() -> None:
    federation = toys.small(toys.spec(federation={"rounds": 1}), toys.method("ccst"))
    assert federation.server.p.tolist() == pytest.approx([1 / 3] * 3)


# CCST's rendering in colours against the same written out in numpy: who draws which styles, and of which images they are.
Floats = NDArray[np.float64]


def style(u: Floats) -> tuple[Floats, Floats]:
    """Of all pixels of all images [n, px, px, 3] of a client: mean and deviation of each colour."""
    pixels = u.reshape(-1, 3)
    return pixels.mean(0), np.sqrt(((pixels - pixels.mean(0)) ** 2).mean(0) + 1e-5)


def styled(u: Floats, mean: Floats, deviation: Floats, alpha: float) -> NDArray[Any]:
    """AdaIN of one image [px, px, 3]."""
    pixels = u.reshape(-1, 3)
    own = np.sqrt(pixels.var(0, ddof=1) + 1e-5)
    moved = (u - pixels.mean(0)) / own * deviation + mean
    return ((1 - alpha) * u + alpha * moved).clip(0, 1) * 255


@pytest.mark.parametrize(("styles", "alpha"), [(1, 1.0), (2, 0.6), (3, 1.0)])
def test_a_rendering(styles: int, alpha: float) -> None:
    """Three clients, unequal; styles are of training images alone, and every image draws its own; validation and test images are left."""
    samples, clients, _ = images()
    stored = samples.pixels.numpy().copy()
    for split, shade in (
        ("val", 0),
        ("test", 255),
    ):  # what would move a style if it were among the training images
        for one in clients:
            stored[one.split(split).numpy()] = shade
    stored[clients[1].train.numpy()] //= 2
    rows = [
        pd.DataFrame({"sample": one.split(split).numpy(), "client": k, "split": split})
        for k, one in enumerate(clients)
        for split in ("train", "val", "test")
    ]
    table = pd.concat(rows, ignore_index=True).sample(frac=1, random_state=0)
    rendered: dict[int, list[NDArray[np.uint8]]] = {}
    for sample, image in CCST(Params(styles=styles, space="rgb", alpha=alpha)).render(stored, table, 5):
        rendered.setdefault(sample, []).append(image)
    unit = stored / 255
    known = [style(unit[one.train.numpy()]) for one in clients]
    drawn = set()
    assert sorted(rendered) == sorted(int(i) for one in clients for i in one.train)
    for k, one in enumerate(clients):
        for sample in one.train.tolist():
            chosen = permutation(generator(5, "styles", sample), 3)[:styles].tolist()
            drawn.add((k, *chosen))
            assert len(rendered[sample]) == styles
            for other, image in zip(chosen, rendered[sample], strict=True):
                if other == k:
                    assert np.array_equal(image, stored[sample])
                else:
                    assert np.abs(image - styled(unit[sample], *known[other], alpha)).max() < 0.51
    assert len(drawn) > 6  # not one draw a client
