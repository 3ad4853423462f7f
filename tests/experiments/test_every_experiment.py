"""Every experiment that is shipped can be planned, collected and shown, and the docs say how many runs each has."""

from __future__ import annotations

import functools
import re

import pytest

from fedshift.analysis import claims, tables
from fedshift.analysis.check import check
from fedshift.analysis.claims.comparison import comparisons
from fedshift.analysis.collection.collect import NothingFinished, collect
from fedshift.experiments.column import column
from fedshift.experiments.expand import specs
from fedshift.experiments.load import available, load
from fedshift.identity import digest, run_name
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

ROW = re.compile(r"^\|[^|]*\| `([\w/]+)` \| (\d+) \|$", re.MULTILINE)
COUNTED = {
    name: int(count)
    for page in ("fdse", "fedrd", "hfedf", "stablefdg")
    for name, count in ROW.findall((ROOT / "docs" / f"{page}.md").read_text())
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A project without results."""
    root = tmp_path_factory.mktemp("shipped")
    for name in ("experiments", "reference"):
        (root / name).symlink_to(ROOT / name)
    return Workspace(root)


@pytest.mark.parametrize("name", available(Workspace(ROOT)))
def test_collected_before_anything_is_trained(workspace: Workspace, name: str) -> None:
    if load(workspace, name).train:
        with pytest.raises(NothingFinished):
            collect(workspace, name)
        assert not workspace.metrics(name).exists()
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
    judged = claims.verdicts(workspace, found)
    tested = comparisons(workspace, found.experiment)
    assert [one.claim for one in judged] == [comparison.claim["id"] for comparison in tested]
    counted = {
        comparison.claim["id"]
        for comparison in tested
        if all(column(cell.metric).declared for cell in comparison.cells)
    }
    assert {one.claim for one in judged if one.verdict != "undecided"} <= counted
    assert {*found.experiment.claims} <= {one.claim for one in judged}
    finished, not_finite, *_ = check(found)
    count = len(found.runs) if found.experiment.train else 0
    assert (finished.value, finished.bound, not_finite.value) == (0, count, 0)
    if name in COUNTED:
        assert found.runs["digest"].nunique() == COUNTED[name], "the number of runs in docs/ is another"


def test_the_docs_count_the_runs_of_each_paper() -> None:
    assert {name.partition("/")[0] for name in COUNTED} == {"fdse", "fedrd", "hfedf", "stablefdg"}
    assert set(COUNTED) <= set(available(Workspace(ROOT)))


def test_data_set_method_target_and_seed_are_known_before_a_run_is_resolved() -> None:
    """Of every fiftieth run: by them it is looked for in the archive."""
    for name in available(Workspace(ROOT)):
        asked: list[str] = []
        found = specs(Workspace(ROOT), load(Workspace(ROOT), name), None, functools.partial(_fiftieth, asked))
        assert [run_name(spec, "") for spec in found] == asked[::50] != []


def test_archived_runs_of_fdse_belong_to_experiments_that_state_their_batches() -> None:
    """They were trained with `wrap`, and protocol fdse has `keep_last`."""
    archive = Workspace(ROOT).archive
    here = {path.name.partition("-")[0] for path in archive.glob("office_caltech10/*/none/*/*.zip")}
    archived = {"lambda_office": 1, "office_start": 3, "similarity_office": 2, "table1_office_tf32": 3}
    found = set()
    for name, count in archived.items():
        experiment = load(Workspace(ROOT), f"fdse/{name}")
        runs = {
            digest(spec) for spec in specs(Workspace(ROOT), experiment, None, lambda spec: spec.seed == 2)
        }
        assert len(here & runs) == count, name
        assert "wrap" in experiment.title
        found |= here & runs
    assert found == here and len(here) == 7


def _fiftieth(asked: list[str], spec: RunSpec) -> bool:
    asked.append(run_name(spec, ""))
    return len(asked) % 50 == 1
