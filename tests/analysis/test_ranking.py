"""Methods over blocks: a published example, intervals, what is left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from click.testing import CliRunner

from fedshift.analysis import ranking
from fedshift.analysis.ranking import critical, markdown
from fedshift.cli import main
from fedshift.common.errors import FedshiftError

from .conftest import Project, accuracy

# Demšar (2006), Table 6: AUC of C4.5, with -m, with -cf, with both, on 14 data sets. The paper
# ranks the two 0.975 of the 13th as 2 and 3.
DEMSAR = np.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.97501, 0.975], [0.957, 0.978, 0.946, 0.970],
]).T  # fmt: skip
PARAMETERS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]


def of(means: np.ndarray, names: list[str], lower: bool = False) -> ranking.Ranking:
    values = np.empty(means.shape, dtype=object)
    for place in np.ndindex(means.shape):
        values[place] = [means[place]]
    return ranking._ranked(names, means, values, [], 0.05, lower)


def test_the_example_of_the_paper() -> None:
    """Mean ranks 3.143, 2.000, 2.893, 1.964; a critical difference of 1.25; the null hypothesis is rejected."""
    result = of(DEMSAR, PARAMETERS)
    ranks = dict(zip(result.table["method"], result.table["rank"], strict=True))
    assert ranks == pytest.approx(dict(zip(PARAMETERS, [3.143, 2.000, 2.893, 1.964], strict=True)), abs=5e-4)
    assert result.table["method"].tolist() == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    assert result.critical == pytest.approx(1.25, abs=5e-3) and result.blocks == 14
    assert result.p < 0.05
    assert result.table["improvement"].tolist()[1:] == pytest.approx(
        [
            np.mean([(a > b) + (a == b) / 2 for a, b in zip(DEMSAR[3], DEMSAR[m], strict=True)])
            for m in (1, 2, 0)
        ]
    )
    assert "with the first: C4.5+m, C4.5+cf, C4.5." in markdown(result, "auc")


def test_one_seed_has_no_interval() -> None:
    one = of(DEMSAR, PARAMETERS)
    assert one.table[["low", "high"]].isna().all(axis=None)
    assert "| C4.5+m+cf | 1.96 | 0.8 |" in markdown(one, "auc")


def test_of_a_loss_the_lowest_is_first() -> None:
    result = of(-DEMSAR, PARAMETERS, lower=True)
    assert result.table["method"].tolist() == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    assert (result.table["improvement"].iloc[1:] >= 0.5).all()


def test_more_blocks_tell_more_apart() -> None:
    assert critical(4, 56, 0.05) == pytest.approx(critical(4, 14, 0.05) / 2)
    assert critical(4, 14, 0.01) > critical(4, 14, 0.05)


def declared(project: Project, **missing: tuple[str, int]) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None, "ditto": None},
        axes={"target": ["a", "b", "c"], "seed": [0, 1]},
        tables={"t": {}},
    )
    rng = np.random.default_rng(0)
    for method, level in (("fedavg", 0.4), ("fedbn", 0.5), ("ditto", 0.7)):
        for target in "abc":
            for seed in (0, 1):
                value = None if missing.get(method) == (target, seed) else level + 0.02 * float(rng.uniform())
                ran = None if value is None else {1: accuracy((0.5, 0.5), ood=value)}
                project.add(method, ran, target=target, seed=seed)


def test_an_experiment_is_ranked_over_its_targets(project: Project) -> None:
    declared(project)
    result = ranking.ranking([project.collect()], "ood")
    assert result.table["method"].tolist() == ["ditto", "fedbn", "fedavg"]
    assert result.table["rank"].tolist() == [1, 2, 3] and result.blocks == 3 and result.left == []
    assert result.table["improvement"].tolist()[1:] == [1, 1] and math.isnan(result.table["improvement"][0])
    assert (result.table["low"] <= result.table["iqm"]).all() and (
        result.table["iqm"] <= result.table["high"]
    ).all()
    assert result.table["iqm"][0] == pytest.approx(71, abs=1)


def test_blocks_and_methods_that_lack_seeds_are_left_out_and_named(project: Project) -> None:
    declared(project, fedbn=("b", 1))
    result = ranking.ranking([project.collect()], "ood")
    assert result.blocks == 2 and result.left == ["toy: b: not all methods have all seeds"]
    assert "Left out: toy: b" in markdown(result, "ood")


def test_two_methods_have_no_friedman_test(project: Project) -> None:
    result = of(np.array([[60.0, 55.0], [70.0, 66.0], [50.0, 51.0]]).T, ["a", "b"])
    assert math.isnan(result.p)
    assert "Friedman" not in markdown(result, "ood") and "nan" not in markdown(result, "ood")


def test_too_little_to_rank_is_refused(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"], "seed": [0]}, tables={"t": {}})
    project.add("fedavg", {1: accuracy((0.5, 0.5), ood=0.5)}, target="a", seed=0)
    with pytest.raises(FedshiftError, match="1 methods share 1 blocks"):
        ranking.ranking([project.collect()], "ood")


def test_methods_that_all_lack_a_seed_are_refused(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None},
        axes={"target": ["a", "b"], "d": [1, 2], "seed": [0, 1]},
        tables={"t": {}},
    )
    for method in ("fedavg", "fedbn"):
        for target in "ab":
            for d in (1, 2):
                project.add(method, {1: accuracy((0.5, 0.5), ood=0.5)}, target=target, d=d, seed=0)
                project.add(method, None, target=target, d=d, seed=1)
    with pytest.raises(FedshiftError, match="0 methods share 0 blocks"):
        ranking.ranking([project.collect()], "ood")


def test_the_command_writes_table_and_numbers(project: Project) -> None:
    declared(project)
    project.collect()
    root = str(project.workspace.root)
    done = CliRunner().invoke(main, ["--root", root, "rank", "toy"])
    assert done.exit_code == 0, done.output
    assert "| ditto | 1.00 |" in done.output and "over 3 blocks" in done.output
    assert (project.workspace.tables("toy") / "ranks.csv").exists()
