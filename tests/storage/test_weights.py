"""Published weights: got from a real server, refused, brought by hand; and what runs without them are told."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedshift.cli import main
from fedshift.common import registry
from fedshift.common.files import sha256
from fedshift.data.partition import partition
from fedshift.planning import planfile
from fedshift.planning.lacking import lacking, needed_weights
from fedshift.planning.plan import plan
from fedshift.planning.planfile import Run
from fedshift.planning.request import Request
from fedshift.storage import weights
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import spec as spec_with
from tests.data.server import FILE, Server, serving

HASH = sha256(FILE)
NAME = f"mobilenet_v2-{HASH[:8]}.pth"
EXPERIMENT = """\
title: From weights
protocol: digits
spec: {federation: {rounds: 1}, local: {epochs: 1}}
methods:
  fedavg: {model: {name: mobilenet, init: imagenet}}
  scratch: {method: {name: fedavg}, model: {name: mobilenet}}
axes: {target: [plain], seed: [0, 1]}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A server that publishes the weights of mobilenet: FILE, its whole SHA-256 known. They are kept in tmp_path/kept."""
    monkeypatch.setattr(registry.get("models", "mobilenet"), "weights", {"imagenet": NAME})
    monkeypatch.setitem(weights.WHOLE, NAME, HASH)
    monkeypatch.setenv(weights.FOLDER, str(tmp_path / "kept"))
    with serving() as state:
        monkeypatch.setattr(weights, "TORCHVISION", state.url.removesuffix("/archive.zip"))
        state.content, state.files = b"no such page", {f"/{NAME}": FILE}
        yield state


def fetch(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--root", str(root), "fetch", "weights", *arguments])


def kept(tmp_path: Path) -> dict[str, bytes]:
    folder = tmp_path / "kept"
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def test_whole_hashes_agree_with_the_published_names_and_each_is_of_some_model() -> None:
    files = {file.name: file for name in registry.own("models") for file in weights.known().get(name, [])}
    assert set(weights.WHOLE) <= set(files)
    for name, whole in weights.WHOLE.items():
        assert len(whole) == 64 and int(whole, 16)
        assert name.endswith(f"-{whole[:8]}.pth")
        assert files[name].sha256 == whole
    assert {name for name, file in files.items() if len(file.sha256) == 8} == {"vgg11_bn-6002323d.pth"}
    assert files["vgg11_bn-6002323d.pth"].sha256 == "6002323d"


def test_fetched_whole_and_a_second_time_nothing_is_downloaded(server: Server, tmp_path: Path) -> None:
    done = fetch(tmp_path, "mobilenet")
    assert done.exit_code == 0, done.output
    assert kept(tmp_path) == {NAME: FILE} and HASH in done.output
    assert len(server.asked) == 1
    again = fetch(tmp_path, "mobilenet")
    assert again.exit_code == 0 and "present" in again.output
    assert len(server.asked) == 1


@pytest.mark.parametrize("known", [HASH, HASH[:8]])
def test_another_content_is_refused_and_not_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    monkeypatch.setitem(weights.WHOLE, NAME, known)
    server.files[f"/{NAME}"] = FILE[:-1] + b"?"
    done = fetch(tmp_path, "mobilenet")
    assert done.exit_code == 2 and f"expected {known}" in done.output and "--from FILE" in done.output
    assert kept(tmp_path) == {}


@pytest.mark.parametrize(("named", "folder"), [(True, False), (False, True)])
def test_a_file_at_hand_is_taken_by_its_content_and_nothing_is_downloaded(
    server: Server, tmp_path: Path, named: bool, folder: bool
) -> None:
    (tmp_path / "given").mkdir()
    source = tmp_path / "given" / (NAME if folder else "renamed.pt")
    source.write_bytes(FILE)
    given = source.parent if folder else source
    done = fetch(tmp_path, *(["mobilenet"] if named else []), "--from", str(given))
    assert done.exit_code == 0, done.output
    assert kept(tmp_path) == {NAME: FILE} and source.is_file() and server.asked == []


@pytest.fixture
def planned(project: Path, server: Server) -> tuple[Workspace, list[Run]]:
    """Two runs that start from mobilenet's weights, which are not there, and two from scratch."""
    (project / "experiments" / "one.yaml").write_text(EXPERIMENT)
    (project / "params.yaml").write_text("experiments: [one]\n")
    return Workspace(project), planfile.runs(plan(Workspace(project), Request(("one",))))


def verb(workspace: Workspace, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--root", str(workspace.root), *arguments])


@pytest.mark.slow
def test_train_refuses_such_a_run_at_once_for_good_and_says_what_to_fetch(planned) -> None:
    """Before it looks for images, which are not divided here; trained after the fetch, when it is asked for again."""
    workspace, runs = planned
    path = planfile.last(workspace, Request(("one",)))
    assert path is not None
    needing = [run for run in runs if json.loads(run.spec)["model"]["init"] == "imagenet"]
    done = verb(workspace, "train-pack", "--plan", str(path), needing[0].digest)
    assert done.exit_code == 1
    failure = json.loads((workspace.root / needing[0].directory / "failure.json").read_text())
    assert not failure["retry"] and "fedshift fetch weights mobilenet" in failure["text"]
    assert "another experiment" in failure["text"]
    assert verb(workspace, "train-pack", "--plan", str(path), "--pack", needing[0].pack).exit_code == 0
    stamp = json.loads((workspace.root / "results" / "packs" / f"{needing[0].stamp}.json").read_text())
    assert set(stamp["failed"]) == {run.digest for run in needing} and not stamp["finished"]


def test_weights_of_a_rendering_are_needed_until_its_images_are_rendered(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.methods.test_ccst import spec

    workspace, run = Workspace(project), spec(space="vgg")
    monkeypatch.setenv(weights.FOLDER, str(project / "none"))
    assert needed_weights(workspace, spec()) == []
    ((encoder, one), (decoder, _)) = lacking(workspace, [run, run]).items()
    assert "vgg_normalised.pth" in encoder.what and "decoder.pth" in decoder.what and one == 2
    assert encoder.cure == "fedshift fetch weights ccst"
    own = lacking(workspace, [spec(space="vgg", encoder="0" * 64)])
    assert [lack.cure.startswith("put the file with SHA-256 000") for lack in own] == [True, False]
    partition(workspace, run)
    workspace.rendered(run.rendered_name).mkdir(parents=True)
    assert lacking(workspace, [run]) == {}


def lists_of(workspace: Workspace, dataset: str, release: str = "original", **division: str) -> list[str]:
    run = spec_with(data={"dataset": dataset, "release": release}, partition=division)
    return [f"{lack.what} {lack.cure}" for lack in lacking(workspace, [run])]


def test_absent_official_lists_are_told_before_a_job_needs_them(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (told,) = lists_of(workspace, "mini_domainnet", "list126")
    assert "fedshift fetch mini_domainnet --release list126 --lists FOLDER" in told
    (told,) = lists_of(workspace, "office_caltech10", split="official")
    assert "official lists of office_caltech10 original" in told
    (told,) = lists_of(workspace, "office_caltech10", target_split="test")
    (told,) = lists_of(workspace, "digits", split="official")
    assert "digits has none" in told
    for dataset, release in (("pacs", "original"), ("vlcs", "original"), ("domainnet10", "fedbn")):
        assert lists_of(workspace, dataset, release, split="official") == []
    assert lists_of(workspace, "office_caltech10") == lists_of(workspace, "digits") == []
    own = workspace.raw("mini_domainnet", "list126").with_name("list126.lists.csv.gz")
    own.parent.mkdir(parents=True)
    own.touch()
    assert lists_of(workspace, "mini_domainnet", "list126", split="official") == []


def test_plan_status_and_doctor_count_what_cannot_run_here(planned, tmp_path: Path) -> None:
    workspace, _ = planned
    line = (
        f"Cannot run here: 2 of these runs, for want of {NAME} in {tmp_path / 'kept'}. "
        "To get it: fedshift fetch weights mobilenet"
    )
    assert line in verb(workspace, "plan").output.splitlines()
    assert line in verb(workspace, "status").output.splitlines()
    doctor = verb(workspace, "doctor")
    assert doctor.exit_code == 1
    found = doctor.output.splitlines()
    place = next(i for i, text in enumerate(found) if text.startswith("!!  weights"))
    assert "2 runs cannot run here" in found[place]
    assert found[place + 1].endswith("-> fedshift fetch weights mobilenet")
    assert fetch(workspace.root).exit_code == 0  # without a name: what params.yaml asks for
    assert kept(tmp_path) == {NAME: FILE}
    for name in ("plan", "status"):
        assert "Cannot run here" not in verb(workspace, name).output
    assert f"ok  weights                {NAME}" in verb(workspace, "doctor").output
