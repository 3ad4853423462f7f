"""How long an image takes where it was not measured: by multiply-accumulates, precision and passes, on the safe side."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.federation.launches import Count
from fedshift.planning.network import plain_macs, plain_step
from fedshift.planning.rates import factor, factors, image_seconds, measured, speed
from fedshift.planning.roofline import Device, seconds
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from tests.conftest import ROOT

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


def test_a_measured_network_is_as_fast_as_measured(tmp_path: Path) -> None:
    assert rate(tmp_path, SMALL + LARGE, spec("digits_cnn")) == (2000, "digits_cnn at 32 px in fp32", True)


def test_another_network_takes_as_much_longer_than_its_estimate_as_the_nearest_row(tmp_path: Path) -> None:
    small = image_seconds("Xeon core", "digits_cnn", 32, "fp32")
    large = image_seconds("Xeon core", "alexnet_bn", 256, "bf16")
    lenet = image_seconds("Xeon core", "lenet", 32, "fp32", 8)
    fifty = image_seconds("Xeon core", "resnet50", 224, "fp32", 8)
    assert lenet < small < large < fifty
    found = rate(tmp_path, SMALL + LARGE, spec("lenet"))
    ratio = 1 / 2000 / small
    source = f"the roofline of Xeon core, {ratio:.2g} times, as digits_cnn at 32 px in fp32"
    assert found[0] == pytest.approx(2000 * small / lenet, abs=0.001)
    assert found[1:] == (source, False)
    found = rate(tmp_path, SMALL + LARGE, spec("resnet50", 224))
    assert found[0] == pytest.approx(80 * large / fifty, abs=0.001)
    assert found[1].endswith("as alexnet_bn at 256 px in bf16")


def test_a_device_without_rows_is_assumed_and_a_gpu_waits_for_launches(tmp_path: Path) -> None:
    digits = spec("digits_cnn", batch=64)
    launches = plain_step("digits_cnn", 32, 64).launches
    found = rate(tmp_path, SMALL, digits, "cuda")
    assert found[0] == pytest.approx(64 / (4 * launches * 5e-6), abs=0.001)
    assert found[1:] == ("the roofline of H200, 4 times, assumed", False)
    assert rate(tmp_path, "", digits)[1] == "the roofline of Xeon core, 4 times, assumed"
    measured_there = SMALL.replace("cpu", "cuda").replace("2000", "90000")
    assert rate(tmp_path, measured_there, digits, "cuda")[::2] == (90000, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + SMALL + LARGE.replace("80", "fast"), r"costs\.csv, line 3: cannot be read: .*'fast'"),
        (HEADER + "digits_cnn,32,cpu\n", r"costs\.csv, line 2: cannot be read: "),
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


def test_a_factor_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "methods.csv").write_text("method,factor\nfedavg,1\nfdse,slow\n")
    with pytest.raises(FedshiftError, match=r"methods\.csv, line 3: cannot be read: .*'slow'"):
        factors(Workspace(tmp_path))


def test_a_step_is_counted_by_hand() -> None:
    """AlexNet's 879 million multiply-adds, three times but for the images' gradient, and pooling's as a matrix product, twice."""
    step, work = plain_step("alexnet_bn", 256, 50), plain_macs("alexnet_bn", 256)
    first = 11 * 11 * 3 * 64 * 63 * 63  # the first layer's, which passes no gradient on to the images
    pooling = 256 * 7 * 7 * 6 * 6
    assert step.flops == 50 * 2 * (3 * work - first + 2 * pooling)
    half = plain_step("alexnet_bn", 256, 25)
    assert half.launches == step.launches and half.bytes < step.bytes < 2 * half.bytes


def test_the_slowest_of_three_decides() -> None:
    device = Device("one", "cuda", 1e-6, 1e9, {"fp32": 1e12, "bf16": 2e12})
    assert seconds(Count(8, 1e3, 1e6), device, "fp32") == (8e-6, "launches")
    assert seconds(Count(10, 1e6, 1e6), device, "fp32") == (1e-3, "bytes")
    assert seconds(Count(10, 1e6, 1e12), device, "bf16") == (0.5, "flops")


def test_on_the_measured_network_a_method_takes_what_was_measured() -> None:
    measured_there = factors(Workspace(ROOT))
    small = {
        name: factor(Workspace(ROOT), spec("digits_cnn", method=name, epochs=2)) for name in measured_there
    }
    assert small == {
        name: pytest.approx(max(1, row.seconds), abs=0.15) for name, row in measured_there.items()
    }


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


def test_passes_are_those_that_the_methods_page_counts() -> None:
    text = (ROOT / "docs" / "methods.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\].*\| ([\d.]+) / ([\d.]+) \| (.*) \| [\d.]+ \|$", text, re.MULTILINE)
    copies = {"ccst": 3}
    counted = {}
    for name, forward, backward, rest in rows:
        outside = re.search(r"train ([\d.]+) / ([\d.]+)", rest)
        pairs = [(forward, backward), outside.groups() if outside else ("0", "0")]
        each = [float(Fraction(f) + 2 * Fraction(b)) / 3 / copies.get(name, 1) for f, b in pairs]
        counted[name] = pytest.approx(each, abs=0.005)
    assert {name: [row.passes, row.outside] for name, row in factors(Workspace(ROOT)).items()} == counted
    assert len(counted) > 20
