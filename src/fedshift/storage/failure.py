"""The record of an error, and what trying again can do about it. Standard library only: the Snakefile needs
it.
"""

from __future__ import annotations

import re
import traceback
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.files import CURES

Failure = dict[str, Any]
# Mistakes in code or declarations: they come again on every machine. Any other error may be the machine's.
FINAL = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
MEMORY = re.compile(r"out of memory|OutOfMemory|MemoryError|ALLOC", re.IGNORECASE)
MACHINE = re.compile(
    r"CUDA|CUDNN|CUBLAS|CUSOLVER|CUFFT|NCCL|AcceleratorError|start new thread", re.IGNORECASE
)


def failure_of(error: Exception) -> Failure:
    """The record of an error in a run.

    retry: whether trying again can help: where a FedshiftError allows it, and after any other error but those
    of code and declarations. A plain RuntimeError is retried, too: torch raises it for a broken GPU as for
    tensors that do not fit, and a useless retry costs minutes, a lost run its table.
    machine: whether it speaks against the machine rather than the run: CUDA and its libraries, threads,
    reading and loading; not a lack of memory, nor what the user must change, such as a full disk.
    """
    ours = isinstance(error, FedshiftError)
    of_a_file = type(error).__module__.startswith("pyarrow")  # its errors for damaged files are ValueErrors
    retry = error.retry if isinstance(error, FedshiftError) else of_a_file or not isinstance(error, FINAL)
    words = f"{type(error).__name__}: {error}"
    machine = MACHINE.search(words) is not None and not MEMORY.search(words)
    if isinstance(error, OSError | ImportError) and not ours:
        machine = getattr(error, "errno", None) not in CURES
    return {
        "kind": type(error).__name__,
        "text": str(error),
        "retry": retry,
        "machine": retry and machine,
        "trace": "".join(traceback.format_exception(error)),
    }
