"""Which errors are final, and which speak against the machine."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest
import torch

from fedshift.common.errors import Damaged, FedshiftError
from fedshift.storage.rundir import failure_of

SHAPES = "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"
NO_CUDA = FedshiftError("device: cuda", "no working CUDA on n0, where a GPU was asked for", "", retry=True)


@pytest.mark.parametrize(
    ("error", "retry", "machine"),
    [
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), True, True),
        (torch.AcceleratorError("CUDA error: unspecified launch failure"), True, True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True, True),
        (RuntimeError("NCCL error in: ../ProcessGroupNCCL.cpp:1"), True, True),
        (RuntimeError("can't start new thread"), True, True),
        (OSError(errno.EIO, "Input/output error"), True, True),
        (ImportError("libcudart.so.12: cannot open shared object file"), True, True),
        (NO_CUDA, True, True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True, False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True, False),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True, False),
        (MemoryError(), True, False),
        (OSError(errno.ENOSPC, "No space left on device"), True, False),
        (Damaged("images.npy", "does not match prepared.json"), True, False),
        (pa.ArrowInvalid("Parquet magic bytes not found in footer"), True, False),
        (FedshiftError("results", "cannot be written: disk full", retry=True), True, False),
        (RuntimeError(SHAPES), True, False),
        (FedshiftError("run", "the update of client 1 is infinite or NaN"), False, False),
        (FedshiftError("checkpoint", "was not written on a cuda"), False, False),
        (ValueError("a batch of 0"), False, False),
        (TypeError("no"), False, False),
        (KeyError("lr"), False, False),
        (IndexError("list index out of range"), False, False),
        (AssertionError(), False, False),
        (AttributeError("no"), False, False),
        (NotImplementedError("aggregate"), False, False),
        (ZeroDivisionError(), False, False),
    ],
    ids=repr,
)
def test_only_mistakes_in_code_and_declarations_are_final(
    error: Exception, retry: bool, machine: bool
) -> None:
    failure = failure_of(error)
    assert (failure["retry"], failure["machine"]) == (retry, machine)
    assert failure["kind"] == type(error).__name__ and failure["text"] == str(error)
