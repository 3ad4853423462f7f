"""The Python interface: functions that `import fedshift` offers and loads when they are first used
(docs/python.md).
"""

from fedshift.api.arrays import dataset
from fedshift.api.images import Data, load_data
from fedshift.api.own import register
from fedshift.api.runs import Run, evaluate, load_run, results, run

__all__ = ["Data", "Run", "dataset", "evaluate", "load_data", "load_run", "register", "results", "run"]
