"""The Python interface: functions of `import fedshift`, loaded at first use (docs/python.md)."""

from fedshift.api.arrays import dataset
from fedshift.api.images import Data, load_data
from fedshift.api.own import register
from fedshift.api.runs import Run, evaluate, load_run, results, run

__all__ = ["Data", "Run", "dataset", "evaluate", "load_data", "load_run", "register", "results", "run"]
