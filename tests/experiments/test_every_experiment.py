"""One walk over every experiment: it can be planned, collected and shown."""

import pytest

from fedshift.analysis import tables
from fedshift.analysis.claims.comparison import comparisons
from fedshift.analysis.claims.judge import verdicts
from fedshift.analysis.collect import NothingFinished, collect
from fedshift.cli.results import shown_without_training
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

REAL = Workspace(ROOT)

# What `make test` walks: one experiment of each kind. That all can be expanded is checked by tests/golden.
SAMPLE = ("demo", "fdse/table1", "fedrd/table2", "hfedf/figure14", "stablefdg/table6", "demo_tuned")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A project without results."""
    root = tmp_path_factory.mktemp("shipped")
    for name in ("experiments", "reference"):
        (root / name).symlink_to(ROOT / name)
    return Workspace(root)


@pytest.mark.parametrize(
    "name",
    [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in available(REAL)],
)
def test_every_experiment(workspace: Workspace, name: str) -> None:
    experiment = load(workspace, name)
    assert expand(workspace, experiment)
    if experiment.tune and not workspace.tuned(name).is_file():
        with pytest.raises(FedshiftError):
            collect(workspace, name)
        name = f"{name}.tuning"
    if experiment.train:
        with pytest.raises(NothingFinished):
            collect(workspace, name)
        assert not workspace.metrics(name).exists()
    shows_nothing(workspace, name)


def shows_nothing(workspace: Workspace, name: str) -> None:
    """Tables and claims before anything is trained: every cell is there, and judges nothing."""
    found = collect(workspace, name, empty=True)
    assert not found.runs.duplicated(found.keys).any()
    assert found.runs["state"].unique().tolist() == ["missing"]
    for title, table in found.experiment.tables.items():
        cells = tables.cells(workspace, found, table)
        columns = {metric: column(metric) for metric in table.metrics}
        itself = {table.against} if all(one.relative == "gain" for one in columns.values()) else set()
        rows = set(found.experiment.rows) - itself
        if any(one.kind != "setting" for one in columns.values()):
            assert set(cells["method"]) == rows, title
        assert set(cells["method"]) <= rows and cells["planned"].min() >= 1
        declared = cells["metric"].map(lambda metric, columns=columns: columns[metric].declared).astype(bool)
        assert not cells.loc[~declared, "seeds"].any() and cells.loc[declared, "seeds"].all()
    judged = verdicts(workspace, found)
    tested = comparisons(workspace, found.experiment)
    assert [*judged["claim"].drop_duplicates()] == [comparison.claim["id"] for comparison in tested]
    counted = {
        comparison.claim["id"]
        for comparison in tested
        if all(column(cell.metric).declared for cell in comparison.cells)
    }
    assert {*judged.loc[~judged["verdict"].isin(["not run", "open"]), "claim"]} <= counted
    assert {*found.experiment.claims} <= {*judged["claim"]}


@pytest.mark.slow
def test_what_a_clones_scorecard_counts_is_kept() -> None:
    """README and docs/results.md count what is kept, `fedshift scorecard` what is archived."""
    for name in available(REAL):
        experiment = load(REAL, name)
        counted = experiment.claims or any(table.printed for table in experiment.tables.values())
        if counted and shown_without_training(REAL, experiment):
            assert (ROOT / "docs" / "results" / name).is_dir(), f"python docs/generate --keep {name}"
