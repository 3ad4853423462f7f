"""Macro-recall: mean recall of all classes of the data set, 0 for a class without samples (where it is below
balanced accuracy).
"""

import numpy as np

from fedshift.analysis.metrics.base import Array, Metric, recall


class MacroRecall(Metric):
    name = "macro_recall"
    title = "macro-recall"

    @staticmethod
    def compute(n: Array, correct: Array) -> Array:
        return np.asarray(np.nan_to_num(recall(n, correct)).mean(-1))
