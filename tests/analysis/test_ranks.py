"""Which rows of a column are best and second."""

import pandas as pd

from fedshift.analysis.latex import ranks


def cells(
    metric: str, means: dict[str, float], seeds: list[int] | None = None, fewer: str = ""
) -> pd.DataFrame:
    frame = pd.DataFrame({"method": [*means], "metric": metric, "mean": [*means.values()]})
    return frame.assign(seeds=seeds or 3, planned=3, fewer=fewer)


def test_the_highest_accuracy_and_the_lowest_loss_are_best() -> None:
    means = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 0.5}
    assert ranks(cells("ood", means)).tolist() == [0, 1, 2, 0]
    assert ranks(cells("loss.ood", means)).tolist() == [2, 0, 0, 1]
    assert ranks(cells("std", means)).tolist() == [2, 0, 0, 1]  # clients that are alike


def test_equal_means_share_a_rank() -> None:
    assert ranks(cells("ood", {"a": 2.0, "b": 2.0 + 1e-12, "c": 1.0, "d": 0.0})).tolist() == [1, 1, 2, 0]


def test_columns_are_ranked_apart() -> None:
    both = pd.concat(
        [cells("ood", {"a": 1.0, "b": 2.0}), cells("id", {"a": 2.0, "b": 1.0})], ignore_index=True
    )
    assert ranks(both).tolist() == [2, 1, 1, 2]


def test_what_is_relative_to_another_row_is_not_ranked() -> None:
    """The largest gain of the full method over an ablation is that of the worst ablation."""
    assert (
        ranks(cells("gain.id", {"without-a": 0.9, "without-b": 0.1, "without-both": 1.3})).tolist() == [0] * 3
    )
    assert ranks(cells("ratio.id", {"without-a": 0.9, "without-b": 1.0})).tolist() == [0] * 2


def test_what_is_not_whole_is_not_ranked() -> None:
    """A mean over fewer seeds than planned, or over fewer values than its neighbours', is another quantity."""
    means = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert ranks(cells("ood", means, seeds=[2, 3, 3])).tolist() == [0, 1, 2]
    assert ranks(cells("ood", means, seeds=[0, 2, 3])).tolist() == [0, 0, 0]  # one alone is no comparison
    assert ranks(cells("ood", means, fewer="epochs 2 of 1, 2")).tolist() == [0, 0, 0]
