"""Every experiment that is shipped can be planned, collected and shown, and the docs say how many runs each has."""

from __future__ import annotations

import re

import pytest

from fedshift.analysis import claims, tables
from fedshift.analysis.check import check
from fedshift.analysis.collect import collect
from fedshift.analysis.comparison import comparisons
from fedshift.experiments.load import available
from fedshift.workspace import Workspace
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
    found = collect(workspace, name)
    assert not found.runs.duplicated(found.keys).any()
    assert found.runs["state"].unique().tolist() == ["missing"]
    for title, table in found.experiment.tables.items():
        cells = tables.cells(workspace, found, table)
        assert set(cells["method"]) == set(found.experiment.rows), title
        assert cells["planned"].min() >= 1
        assert cells["seeds"].max() == 0
    judged = claims.verdicts(workspace, found)
    assert [(one.claim, one.verdict) for one in judged] == [
        (comparison.claim["id"], "undecided") for comparison in comparisons(workspace, found.experiment)
    ]
    assert {*found.experiment.claims} <= {one.claim for one in judged}
    finished, not_finite, *_ = check(found)
    assert (finished.value, finished.bound, not_finite.value) == (0, len(found.runs), 0)
    if name in COUNTED:
        assert found.runs["digest"].nunique() == COUNTED[name], "the number of runs in docs/ is another"


def test_the_docs_count_the_runs_of_each_paper() -> None:
    assert {name.partition("/")[0] for name in COUNTED} == {"fdse", "fedrd", "hfedf", "stablefdg"}
    assert set(COUNTED) <= set(available(Workspace(ROOT)))
