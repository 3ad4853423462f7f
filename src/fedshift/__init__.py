"""fedshift: reproducible federated learning under domain shift.

In Python: `dataset`, `load_data`, `register`, `run`, `load_run`, `evaluate`, `results` (docs/python.md),
loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedshift.common.version import __version__

if TYPE_CHECKING:
    from fedshift.api import Data, Run, dataset, evaluate, load_data, load_run, register, results, run

__all__ = [
    "Data", "Run", "__version__",
    "dataset", "evaluate", "load_data", "load_run", "register", "results", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fedshift' has no attribute '{name}'")
    from fedshift import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
