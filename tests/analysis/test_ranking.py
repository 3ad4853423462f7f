"""Methods over blocks: differences from one of them, which hold all at once; what is left out."""

import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fedshift.analysis.ranking import markdown, ranking
from fedshift.analysis.verdicts import residual, simultaneous
from fedshift.cli import main
from fedshift.common.errors import FedshiftError

from .conftest import Project, accuracy

LEVELS = {"fedavg": 0.4, "fedbn": 0.41, "ditto": 0.7}


def declared(project: Project, **missing: tuple[str, int]) -> pd.DataFrame:
    """Three methods on three held-out domains and two seeds; [method, seed] the means over domains, in percent."""
    project.declare(
        methods=dict.fromkeys(LEVELS), axes={"target": ["a", "b", "c"], "seed": [0, 1]}, tables={"t": {}}
    )
    rng = np.random.default_rng(0)
    values = {}
    for method, level in LEVELS.items():
        for target in "abc":
            for seed in (0, 1):
                value = level + 0.1 * "abc".index(target) + round(0.02 * float(rng.uniform()), 3)
                ran = None if missing.get(method) == (target, seed) else {1: accuracy((0.5, 0.5), ood=value)}
                project.add(method, ran, target=target, seed=seed)
                values[method, seed, target] = 100 * value
    return pd.Series(values).unstack().mean(axis=1).unstack()


def test_differences_from_fedavg_have_the_spread_that_methods_and_seeds_leave(project: Project) -> None:
    means = declared(project)
    result = ranking([project.collect()], "ood")
    table = result.table.set_index("method")
    assert [*table.index] == ["ditto", "fedbn", "fedavg"] and result.against == "fedavg"
    assert (result.blocks, result.seeds, result.left) == (3, 2, [])
    assert table["mean"].to_dict() == pytest.approx(means.mean(axis=1).to_dict(), abs=1e-3)
    spread = residual(means)
    half = simultaneous(2, spread.freedom) * spread.deviation  # sqrt(2 / 2)
    ditto = table.loc["ditto"]
    assert (ditto["high"] - ditto["low"]) / 2 == pytest.approx(half, rel=1e-3)
    assert result.better == ["ditto"] and result.worse == [] and math.isnan(table.loc["fedavg", "low"])
    assert "better than fedavg: ditto; the others cannot be told from it with 2 seeds" in result.sentence


def test_another_reference_turns_the_signs(project: Project) -> None:
    declared(project)
    result = ranking([project.collect()], "ood", "ditto")
    assert result.better == [] and result.worse == ["fedbn", "fedavg"]
    with pytest.raises(FedshiftError, match="unknown method with results 'ditt'"):
        ranking([project.collect()], "ood", "ditt")


def test_one_seed_tells_nothing_apart(project: Project) -> None:
    project.declare(methods=dict.fromkeys(LEVELS), axes={"target": ["a"], "seed": [0]}, tables={"t": {}})
    for method, level in LEVELS.items():
        project.add(method, {1: accuracy((0.5, 0.5), ood=level)}, target="a", seed=0)
    result = ranking([project.collect()], "ood")
    assert result.better == result.worse == [] and result.table["low"].isna().all()
    assert "| ditto | 70.0 | +30.0 |" in markdown(result, "ood") and result.sentence.startswith("One seed")


def test_of_a_loss_the_lowest_is_first(project: Project) -> None:
    declared(project)
    result = ranking([project.collect()], "loss.ood")
    assert result.lower and result.table["mean"].is_monotonic_increasing


def test_blocks_and_methods_that_lack_seeds_are_left_out_and_named(project: Project) -> None:
    declared(project, fedbn=("b", 1))
    result = ranking([project.collect()], "ood")
    assert result.blocks == 2 and result.left == ["toy: b: not all methods have all seeds"]
    assert "Left out: toy: b" in markdown(result, "ood")


def test_methods_that_all_lack_a_seed_are_refused(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None}, axes={"target": ["a", "b"], "seed": [0, 1]}, tables={"t": {}}
    )
    for method in ("fedavg", "fedbn"):
        for target in "ab":
            project.add(method, {1: accuracy((0.5, 0.5), ood=0.5)}, target=target, seed=0)
            project.add(method, None, target=target, seed=1)
    with pytest.raises(FedshiftError, match="0 methods have all seeds"):
        ranking([project.collect()], "ood")


def test_the_command_writes_table_and_numbers(project: Project) -> None:
    declared(project)
    project.collect()
    done = CliRunner().invoke(main, ["--root", str(project.workspace.root), "rank", "toy"])
    assert done.exit_code == 0, done.output
    assert "| ditto |" in done.output and "better than fedavg: ditto" in done.output
    assert (project.workspace.tables("toy") / "ranks.csv").exists()
