"""Names of what lies in data/: declarations, declared versions and the files of plug-ins are part of them, the engine is not."""

import logging
from pathlib import Path

import pytest

from fedshift.common.registry import get
from fedshift.data.prepare import load_prepared
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.spec.settings import Source
from fedshift.storage.workspace import Workspace
from tests.conftest import Edit

DATA, DIGITS = "fedshift.data", "fedshift.data.datasets.digits"
NUMPY = "import numpy as np"


def spec(
    scheme: str = "domain_per_client", *, seed: int = 0, space: str = "rgb", **modify: object
) -> RunSpec:
    value = {
        "data": {"dataset": "digits", "target": "ink", "normalise": "half"},
        "partition": {"scheme": scheme, "modify": modify},
        "model": {"name": "digits_cnn"},
        "method": {"name": "ccst", "params": {"space": space}},
        "local": {"batch": 32, "lr": 0.1},
        "federation": {"rounds": 1},
        "seed": seed,
    }
    return resolve(parse(value, "test"))


def names(run: RunSpec) -> tuple[str, str, str]:
    return run.data.prepared_name, run.partition_name, run.rendered_name


def changed(before: tuple[str, ...], after: tuple[str, ...]) -> list[bool]:
    """Of images, partition, rendered images."""
    return [one != other for one, other in zip(before, after, strict=True)]


@pytest.mark.parametrize(
    ("module", "old", "new", "others"),
    [
        (DIGITS, ".astype(np.uint8)", ".astype(np.uint8) ^ 255", [False, False, False]),
        (
            "fedshift.data.prepare",
            "Resampling.BILINEAR, reducing_gap=None)",
            "Resampling.BILINEAR, reducing_gap=2.0)",
            [False, False, False],
        ),
        (
            "fedshift.data.scheme",
            "rng.random_raw(n), kind",
            "-rng.random_raw(n), kind",
            [False, False, False],
        ),
        (f"{DATA}.partitions.domain_per_client", NUMPY, f"{NUMPY}\n\nSEEN = 1", [False, True, True]),
        (f"{DATA}.partitions.dirichlet", NUMPY, f"{NUMPY}\n\nSEEN = 1", [False, False, False]),
        (f"{DATA}.modifiers.few_shot_target", NUMPY, f"{NUMPY}\n\nSEEN = 1", [False, True, True]),
        (f"{DATA}.modifiers.few_shot_target", NUMPY, f"{NUMPY}  # as usual", [False, False, False]),
        (f"{DATA}.renderings.ccst", "* 255).round()", "* 255).floor()", [False, False, True]),
    ],
)
def test_a_changed_file_is_another_name_of_what_it_makes_quickly(
    edited: Edit, module: str, old: str, new: str, others: list[bool]
) -> None:
    """Not of decoded images, which take long: they are read with a warning (below)."""
    run = spec(few_shot_target={"each": 5})
    before = names(run)
    edited(module, old, new)
    assert changed(before, names(run)) == others


@pytest.mark.parametrize(
    ("kind", "name", "others"),
    [
        ("datasets", "digits", [True, True, True]),
        ("datasets", "pacs", [False, False, False]),
        ("partitions", "domain_per_client", [False, True, True]),
        ("partitions", "dirichlet", [False, False, False]),
        ("modifiers", "few_shot_target", [False, True, True]),
        ("modifiers", "label_shift", [False, False, False]),
        ("renderings", "ccst", [False, False, True]),
    ],
)
def test_another_version_is_another_name_of_what_it_makes(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, others: list[bool]
) -> None:
    run = spec(few_shot_target={"each": 5})
    before = names(run)
    plugin = get(kind, name)
    monkeypatch.setattr(plugin, "version", plugin.version + 1)
    assert changed(before, names(run)) == others


def test_another_engine_makes_all_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = names(spec())
    monkeypatch.setattr("fedshift.spec.settings.ENGINE_VERSION", 99)
    assert changed(before, names(spec())) == [True, True, True]


def test_whatever_is_declared_is_in_the_names_of_what_it_decides() -> None:
    run = names(spec())
    assert changed(run, names(spec("dirichlet"))) == [False, True, True]
    assert changed(run, names(spec(few_shot_target={"each": 5}))) == [False, True, True]
    assert changed(run, names(spec(seed=1))) == [False, True, True]
    assert changed(run, names(spec(space="vgg"))) == [False, False, True]
    sizes = [Source.model_validate({"dataset": "digits", "prepare": {"px": px}}) for px in (16, 32)]
    assert len({size.prepared_name for size in sizes}) == 2


def test_images_of_a_changed_data_set_are_read_with_a_warning(
    edited: Edit, digits: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Workspace(digits).prepared(spec().data.prepared_name)
    with caplog.at_level(logging.WARNING):
        pixels = load_prepared(folder).pixels
        edited(DIGITS, '"""Pixels uint8 [32', '"""# Pixels uint8 [32')
        load_prepared(folder)
        assert caplog.messages == []
        edited(DIGITS, ".astype(np.uint8)", ".astype(np.uint8) ^ 255")
        assert (load_prepared(folder).pixels == pixels).all()
    (line,) = caplog.messages
    assert f"{folder} was decoded before the file of data set digits changed" in line and "version" in line
