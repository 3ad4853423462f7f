"""Pages that are made from the code are up to date, and what they count is what a reader counts."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fedshift.common.registry import own
from fedshift.experiments.figures import listed
from tests.conftest import ROOT
from tests.methods.files import vectors_of


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folders whose scripts write and measure what the pages show."""
    for folder in ("docs/generate", "benchmarks"):  # the first place on the path is the last one's
        monkeypatch.syspath_prepend(ROOT / folder)
    yield
    for name in ("methods", "play", "times"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "docs/generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_kind_of_figure_has_a_picture_that_the_gallery_makes() -> None:
    """Each picture is of a figure that an experiment of the gallery lists, and there are no others."""
    gallery, images = ROOT / "docs" / "gallery", ROOT / "docs" / "images" / "gallery"
    pictures = yaml.safe_load((gallery / "pictures.yaml").read_text())
    kinds = set()
    for experiment in {name.partition("/")[0] for name in pictures}:
        declared = yaml.safe_load((gallery / f"{experiment}.yaml").read_text())["figures"]
        files = listed(declared, experiment)
        drawn = {file for name in pictures for of, _, file in [name.partition("/")] if of == experiment}
        assert drawn == {*files}
        kinds |= {kind for kind, _ in files.values()}
    assert kinds == {*own("figures")}
    assert {path.relative_to(images).with_suffix("").as_posix() for path in images.rglob("*.png")} == {
        *pictures
    }


def of_the_gallery(name: str) -> Any:
    return yaml.safe_load((ROOT / "docs" / "gallery" / f"{name}.yaml").read_text())


def test_a_look_at_each_kind_of_figure_mended_three_weaknesses() -> None:
    mended = of_the_gallery("mended")
    assert {*mended} == {*own("figures")}
    assert [kind for kind, weaknesses in mended.items() if len(weaknesses) < 3] == []


def test_an_error_is_planted_in_each_analysis_and_its_test_is_there() -> None:
    planted = of_the_gallery("planted")
    assert {kind: {*analyses} for kind, analyses in planted.items()} == {
        kind: {*own(kind)} for kind in ("figures", "evaluations")
    }
    named = [test for of in planted.values() for errors in of.values() for test in errors.values()]
    for file, _, function in (test.partition("::") for test in named):
        assert f"\ndef {function}(" in (ROOT / "tests" / file).read_text(), f"{file} has no {function}"
    assert all(errors for of in planted.values() for errors in of.values())


PAPERS = {"FDSE": "000", "FedRD": "002", "hFedF": "003", "StableFDG": "004"}  # -> how its text's file begins
CAPTION = re.compile(r"(?:^[*\s]*|>)(?:Figure|Fig\.) (A?\d+)[.:]", re.MULTILINE)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_printed_figure_has_a_file_or_is_an_illustration(shared: Path, paper: str) -> None:
    from printed_figures import ILLUSTRATIONS, PRINTED

    (text,) = (shared / "papers").glob(f"{PAPERS[paper]}_*.txt")
    captions = {*CAPTION.findall(text.read_text())}
    results = {name.rstrip("ab") for name in PRINTED[paper]}
    assert results & {*ILLUSTRATIONS[paper]} == set()
    assert captions == results | {*ILLUSTRATIONS[paper]}


def test_the_readme_names_every_method_once() -> None:
    named = re.findall(r"\[(\w+)\]\(docs/methods\.md#(\w+)\)", (ROOT / "README.md").read_text())
    assert all(name == anchor for name, anchor in named)
    assert sorted(name for name, _ in named) == sorted(own("methods"))


@pytest.mark.parametrize(
    ("method", "steps", "outside"),
    [
        ("fedavg", (1, 1), {}),
        ("central", (1, 1), {}),
        ("ccst", (3, 3), {}),  # three rendered images for each
        ("ditto", (2, 2), {}),  # both models on every batch
        ("moon", (3, 1), {}),  # and the global and the last model, without gradients
        ("feddg_ga", (1, 1), {"val": (2, 0)}),  # the received model and the trained one
        ("fediir", (1, 1), {"train": (1, 0)}),  # the mean gradient of the head
        ("partialfed", (1, 1), {"train": (1, 1)}),  # the gates' epoch
    ],
)
def test_passes_are_those_that_a_method_makes(
    method: str, steps: tuple[int, int], outside: dict[str, tuple[int, int]]
) -> None:
    from play import play

    played = play(method)
    assert (played.steps, played.outside) == (steps, outside)


def test_what_travels_once_is_told_apart() -> None:
    from play import play

    one = 3 * 3 * 3  # of an image: channels, a square of 3 x 3 bins
    bank, largest = 12 * one, 16 * one  # of a client: three hold 36 images, the first 16 of them
    model = play("fedavg").bytes["up"][0]
    played = play("feddg")
    assert played.steps == (2, 2)
    sent = bank + 1  # and how many images they are of
    assert played.bytes == {"up": (model, 4 * sent), "down": (model, 3 * 4 * sent)}
    assert played.floats == {("amplitudes", "up"): {1: largest}, ("size", "up"): {1: 1}}


def test_a_partial_forward_counts_in_part() -> None:
    from play import play

    played = play("stablefdg")
    assert played.outside == {"train": (0.25, 0)}  # one of four stages, for the styles
    assert 1 < played.steps[0] == played.steps[1] <= 2  # samples that are added behind a stage


def test_vectors_are_found_wherever_they_are_read() -> None:
    assert "fdse_block.npz" in vectors_of("fdse")  # by tests/models/layers/test_dse.py
    assert vectors_of("ditto") == ["fedavg_family_quadratic.json"]  # by its own test, under another name
    assert not vectors_of("central")


def test_hooks_are_told_beyond_the_spread() -> None:
    from times import Round, round_line

    base = Round(1.0, 0.05, {"loss": 0.4, "rest": 0.6})
    assert round_line("ditto", {"fedavg": base, "ditto": Round(2.0, 0.2, {"loss": 0.3, "rest": 0.7})}) == (
        "One round: 2.00 of FedAvg's (spread 20%): rest +0.80."
    )  # loss +0.20 is less than 20% of two rounds
    rounds = {"fedavg": base, "local": Round(0.9, None, {"loss": 0.5, "rest": 0.5})}
    assert round_line("local", rounds) == "One round: 0.90 of FedAvg's: rest -0.15."  # loss +0.05 is not


def test_rendered_images_are_trained_on_in_the_benchmark() -> None:
    import methods

    options = Namespace(px=32, model="digits_cnn", precision="fp32", clients=2, each=20)
    made = {name: methods.federation(name, options, torch.device("cpu")) for name in ("fedavg", "ccst")}
    for federation in made.values():
        next(federation.run())
    # 18 training images a client, two epochs: one batch of 18, two times; three for each: 54 in one batch
    assert {name: methods.images_trained(one) for name, one in made.items()} == {"fedavg": 72, "ccst": 216}


def test_measuring_one_method_leaves_the_others_rows(tmp_path: Path) -> None:
    import methods

    path = tmp_path / "methods.csv"
    path.write_text("method,factor\nfedavg,1.0\nditto,2.0\nccst,1.0\n")
    methods.write([{"method": "ccst", "factor": 1.1, "spread": 0.2}], path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [tuple(row.values()) for row in rows] == [
        ("fedavg", "1.0", ""),
        ("ccst", "1.1", "0.2"),
        ("ditto", "2.0", ""),
    ]
