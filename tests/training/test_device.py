"""Which device a job takes where there is no GPU."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.training.device import PRETEND, device, require

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def test_auto_is_the_cpu_and_a_gpu_that_was_asked_for_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRETEND, raising=False)
    require(device("auto"))
    require(device("cpu"))
    assert device("auto").type == "cpu" and device("cuda").type == "cuda"
    with pytest.raises(FedshiftError, match=r"no working CUDA on") as error:
        require(device("cuda"))
    assert error.value.retry


def test_where_gpus_are_pretended_the_cpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRETEND, "1")
    assert device("cuda").type == "cpu"


def test_a_word_that_names_no_device_is_refused() -> None:
    with pytest.raises(FedshiftError, match=r"unknown device 'gpu'\n.*auto, cpu, cuda"):
        device("gpu")
