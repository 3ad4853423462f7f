"""The Python interface: five functions, which `import fedshift` offers and loads when they are first used
(docs/python.md).
"""

from fedshift.api.images import Data, load_data
from fedshift.api.runs import Run, evaluate, load_run, results, run

__all__ = ["Data", "Run", "evaluate", "load_data", "load_run", "results", "run"]
