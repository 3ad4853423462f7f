"""What is drawn around a mean over seeds."""

from __future__ import annotations

import pandas as pd
import pytest

from fedshift.analysis.quantities.seeds import Mean, over_seeds


def over(*values: list[float]) -> Mean:
    """values: of the seeds at each place."""
    rows = [(place, value) for place, of in enumerate(values) for value in of]
    found = over_seeds(pd.DataFrame(rows, columns=["place", "value"]), "place", "value", ddof=1)
    assert found is not None
    return found


def test_two_seeds_beside_three_have_no_standard_deviation() -> None:
    """Of 40 and 60 it was drawn as 0: 50 [50, 50]."""
    line = over([50, 51, 52], [40, 60])
    assert line.kind == "std" and line.mean.tolist() == [51, 50]
    assert line.low.tolist() == pytest.approx([50, float("nan")], nan_ok=True)
    assert line.high.tolist() == pytest.approx([52, float("nan")], nan_ok=True)


def test_one_seed_beside_two_spans_nothing() -> None:
    line = over([40, 60], [50])
    assert line.kind == "range"
    assert line.low.tolist() == pytest.approx([40, float("nan")], nan_ok=True)
