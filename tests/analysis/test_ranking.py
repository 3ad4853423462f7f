"""Methods over blocks: differences from one of them, which hold all at once; what is left out."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from fedshift.analysis.collected import Collected
from fedshift.analysis.ranking import Ranking, markdown, ranking
from fedshift.analysis.verdicts import residual, simultaneous
from fedshift.common.errors import FedshiftError
from tests.verbs import done, fedshift

from .conftest import Project

LEVELS = {"fedavg": 0.4, "fedbn": 0.41, "ditto": 0.7}


def ranked(project: Project, **missing: tuple[str, int]) -> tuple[Collected, pd.DataFrame]:
    """Three methods on three held-out domains and two seeds; [method, seed] the means over domains, in percent."""
    rng = np.random.default_rng(0)
    values = {
        (method, target, seed): level + 0.1 * "abc".index(target) + round(0.02 * float(rng.uniform()), 3)
        for method, level in LEVELS.items()
        for target in "abc"
        for seed in (0, 1)
    }
    runs = {place: None if missing.get(place[0]) == place[1:] else value for place, value in values.items()}
    collected = project.trained(runs, tables={"t": {}})
    return collected, 100 * pd.Series(values).unstack(1).mean(axis=1).unstack()


def test_differences_from_fedavg_have_the_spread_that_methods_and_seeds_leave(project: Project) -> None:
    collected, means = ranked(project)
    result = ranking([collected], "ood")
    table = result.table.set_index("method")
    assert [*table.index] == ["ditto", "fedbn", "fedavg"] and result.against == "fedavg"
    assert (result.blocks, result.seeds, result.left) == (3, 2, [])
    assert table["mean"].to_dict() == pytest.approx(means.mean(axis=1).to_dict(), abs=1e-3)
    spread = residual(means)
    half = simultaneous(2, spread.freedom) * spread.deviation  # sqrt(2 / 2)
    ditto = table.loc["ditto"]
    assert (ditto["high"] - ditto["low"]) / 2 == pytest.approx(half, rel=1e-3)
    assert result.better == ["ditto"] and result.worse == [] and math.isnan(table.loc["fedavg", "low"])
    assert result.sentence.startswith(
        "Better than fedavg: ditto; the others are not distinguishable from fedavg with 2 seeds"
    )


def test_another_reference_turns_the_signs_and_of_a_loss_the_lowest_is_first(project: Project) -> None:
    collected, _ = ranked(project)
    result = ranking([collected], "ood", "ditto")
    assert result.better == [] and result.worse == ["fedbn", "fedavg"]
    with pytest.raises(FedshiftError, match="unknown method with results 'ditt'"):
        ranking([collected], "ood", "ditt")
    result = ranking([collected], "loss.ood")
    assert result.lower and result.table["mean"].is_monotonic_increasing
    shown = done(fedshift(project.workspace.root, "rank", "toy"))
    assert "| ditto |" in shown and "Better than fedavg: ditto" in shown
    assert (project.workspace.tables("toy") / "ranks.csv").exists()


def test_the_sentence_keeps_the_names_of_rows() -> None:
    table = pd.DataFrame({"method": ["MyNet", "FedAvg"], "low": [1.0, math.nan], "high": [3.0, math.nan]})
    assert Ranking(table, "FedAvg", 2, 1, [], False).sentence == "Better than FedAvg: MyNet."


def test_one_seed_tells_nothing_apart(project: Project) -> None:
    result = ranking([project.trained({(method, "a", 0): level for method, level in LEVELS.items()})], "ood")
    assert result.better == result.worse == [] and result.table["low"].isna().all()
    assert "| ditto | 70.0 | +30.0 |" in markdown(result, "ood") and result.sentence.startswith(
        "With one seed"
    )


def test_blocks_and_methods_that_lack_seeds_are_left_out_and_named(project: Project) -> None:
    collected, _ = ranked(project, fedbn=("b", 1))
    result = ranking([collected], "ood")
    assert result.blocks == 2 and result.left == ["toy: b: not all methods have all seeds"]
    assert "Left out: toy: b" in markdown(result, "ood")


def test_methods_that_all_lack_a_seed_are_refused(project: Project) -> None:
    places = itertools.product(("fedavg", "fedbn"), "ab", (0, 1))
    collected = project.trained({place: None if place[-1] else 0.5 for place in places})
    with pytest.raises(FedshiftError, match="0 methods have all seeds"):
        ranking([collected], "ood")


def test_equal_seeds_have_no_interval() -> None:
    table = pd.DataFrame({"method": ["a", "b"], "low": [math.nan] * 2, "high": [math.nan] * 2})
    assert Ranking(table, "b", 2, 1, [], False).sentence.startswith("All seeds are equal")
