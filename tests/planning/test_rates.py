"""How long an image takes where it was not measured: by multiply-accumulates, precision and passes, on the safe side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.planning.costs import factor, measured, plain_macs, speed
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys

HEADER = "model,input_px,device,precision,images_per_second,source\n"
SMALL = "digits_cnn,32,cpu,fp32,2000,by hand\n"
LARGE = "alexnet_bn,256,cpu,bf16,80,by hand\n"
# Of the machine and day on which FDSE's factor on AlexNet was measured, too.
FACTORS = "method,factor,passes,outside\nfedavg,1,1,0\nditto,2.06,2,0\ndsu,1.38,1,0\nfdse,2.41,1,0\npartialfed,1.62,1,1\n"


def spec(model: str, px: int = 32, method: str = "fedavg", **local: Any) -> RunSpec:
    data = {"input_px": px, "prepare": {"px": px}}
    return resolve(toys.spec(data=data, model={"name": model}, method={"name": method}, local=local))


def rate(root: Path, rows: str, run: RunSpec, device: str = "cpu") -> tuple[float, str, bool]:
    (root / "benchmarks").mkdir(exist_ok=True)
    (root / "benchmarks" / "costs.csv").write_text(HEADER + rows)
    measured.cache_clear()
    found = speed(Workspace(root), run, device)
    return round(found.images_per_second, 3), found.source, found.measured


def test_another_network_is_as_fast_by_its_macs_as_the_nearest_row(tmp_path: Path) -> None:
    small, large = plain_macs("digits_cnn", 32), plain_macs("alexnet_bn", 256)
    lenet, fifty = plain_macs("lenet", 32), plain_macs("resnet50", 224)
    assert lenet < small < large < fifty
    found = rate(tmp_path, SMALL + LARGE.replace("bf16", "fp32"), spec("lenet"))
    assert found == (pytest.approx(2000 * small / lenet, abs=0.001), "digits_cnn at 32 px in fp32", False)
    found = rate(tmp_path, SMALL + LARGE.replace("bf16", "fp32"), spec("resnet50", 224))
    assert found == (pytest.approx(80 * large / fifty, abs=0.001), "alexnet_bn at 256 px in fp32", False)
    # A row of the same precision goes before a nearer one.
    found = rate(tmp_path, SMALL + LARGE, spec("resnet50", 224))
    assert found == (pytest.approx(2000 * small / fifty, abs=0.001), "digits_cnn at 32 px in fp32", False)


def test_a_device_without_rows_is_assumed(tmp_path: Path) -> None:
    digits = spec("digits_cnn", batch=64)
    found = rate(tmp_path, SMALL, digits, "cuda")
    assert found[0] == pytest.approx(2e11 / plain_macs("digits_cnn", 32), abs=0.001)
    assert found[1:] == ("2e+11 multiply-accumulates a second, assumed", False)
    measured_there = SMALL.replace("cpu", "cuda").replace("2000", "90000")
    assert rate(tmp_path, measured_there, digits, "cuda")[::2] == (90000, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + SMALL + LARGE.replace("80", "fast"), r"costs\.csv, line 3: cannot be read: .*'fast'"),
        (
            "model,device,precision\ndigits_cnn,cpu,fp32\n",
            r"line 2: cannot be read: no column 'input_px'\n  Mend",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "costs.csv").write_text(text)
    with pytest.raises(FedshiftError, match=message):
        measured(Workspace(tmp_path))


def test_what_is_not_passes_weighs_less_on_a_larger_network(tmp_path: Path) -> None:
    """FDSE's 2.41 of a network of 61,000 parameters was taken for AlexNet too, where 1.19 was measured the same day."""
    here = Workspace(tmp_path / "measured")
    (here.root / "benchmarks").mkdir(parents=True)
    (here.root / "benchmarks" / "methods.csv").write_text(FACTORS)
    small = {name: factor(here, spec("digits_cnn", method=name, epochs=2)) for name in ("fdse", "ditto")}
    assert small["fdse"] == 2.41
    assert 1.19 <= factor(here, spec("alexnet_bn", 256, "fdse")) < 1.25
    assert (
        2 <= factor(here, spec("alexnet_bn", 256, "ditto")) < small["ditto"]
    )  # two networks are two anywhere
    assert factor(here, spec("lenet", method="dsu")) == 1.38  # never more than measured
    once, often = (factor(here, spec("digits_cnn", method="partialfed", epochs=e)) for e in (1, 10))
    assert once - often == pytest.approx(0.9)  # a pass a round, not an epoch
    assert factor(Workspace(tmp_path), spec("digits_cnn", method="fdse")) == 1
