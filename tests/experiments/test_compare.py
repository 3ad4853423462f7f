"""The experiment that `fedshift compare` writes of a tree of the user's own."""

from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Address, address
from fedshift.data.fetch import fetch
from fedshift.experiments.declare import declaration, write
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from tests.data.conftest import plant
from tests.verbs import done, fedshift, refused


@pytest.fixture
def clinics(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Address:
    """Three clinics with two classes, fetched."""
    tree = plant(tmp_path_factory.mktemp("tree") / "clinics", ("a", "b", "c"), ("ill", "well"), each=8)
    where = address(f"folder:{tree}")
    fetch(Workspace(project), *where, say=lambda _: None)
    return where


def test_each_domain_is_held_out_for_each_method_and_seed(project: Path, clinics: Address) -> None:
    workspace = Workspace(project)
    declared = declaration(
        workspace, clinics, ["fedavg", "ccst-rgb"], protocol="unified", rounds=2, settings={"local.lr": 0.1}
    )
    path = write(workspace, "compare/clinics", declared)
    cells = expand(workspace, load(workspace, "compare/clinics"))
    assert {(cell.label, cell.axes["target"], cell.axes["seed"]) for cell in cells} == {
        (label, target, seed)
        for label in ("fedavg", "ccst-rgb")
        for target in "abc"
        for seed in (0, 1, 2)  # the protocol's
    }
    assert {(cell.spec.federation.rounds, cell.spec.local.lr) for cell in cells} == {(2, 0.1)}
    assert {cell.spec.data.release for cell in cells} == {"clinics"}
    before = path.read_bytes()
    write(workspace, "compare/clinics", declared)  # the same again
    assert path.read_bytes() == before


def test_what_was_edited_is_never_overwritten(project: Path, clinics: Address) -> None:
    """What compare wrote itself is: with more seeds, it is the same comparison extended."""
    workspace = Workspace(project)
    first, more = (
        declaration(workspace, clinics, ["fedavg"], protocol="unified", seeds=seeds)
        for seeds in ([0], [0, 1])
    )
    path = write(workspace, "compare/clinics", first)
    write(workspace, "compare/clinics", more)
    assert load(workspace, "compare/clinics").axes["seed"].values == [0, 1]
    edited = path.read_text().replace("seed: [0, 1]", "seed: [0, 1, 2]")
    path.write_text(edited)
    for declared in (first, more):
        with pytest.raises(FedshiftError, match="was edited"):
            write(workspace, "compare/clinics", declared)
    assert path.read_text() == edited
    by_hand = workspace.experiments / "compare" / "own.yaml"
    by_hand.write_text("title: Own\n")
    with pytest.raises(FedshiftError, match="is another experiment"):
        write(workspace, "compare/own", first)


def test_a_setting_of_the_data_leaves_the_data_set(project: Path, clinics: Address) -> None:
    """`--set data.prepare.px=48` took the place of data set and release."""
    settings = {"data.prepare.px": 48, "data.input_px": 48}
    declared = declaration(Workspace(project), clinics, ["fedavg"], protocol="unified", settings=settings)
    write(Workspace(project), "compare/clinics", declared)
    (spec, *_) = [
        cell.spec for cell in expand(Workspace(project), load(Workspace(project), "compare/clinics"))
    ]
    assert (spec.data.dataset, spec.data.release, spec.data.prepare.px) == ("folder", "clinics", 48)


def test_a_comparison_that_is_refused_leaves_no_file(project: Path, clinics: Address) -> None:
    """The same command with the mistake mended was refused: another comparison stood there."""
    asked = ["compare", "--data=folder:clinics", "--methods=fedavg,fedbn", "--seeds=0", "--plan-only"]
    refused(fedshift(project, *asked, "--set", "local.lrr=0.1"), "unknown key", "Did you mean 'lr'?")
    assert not (project / "experiments" / "compare" / "clinics.yaml").exists()
    assert "compare/clinics" in done(fedshift(project, *asked, "--set", "local.lr=0.1"))
