"""The reader of diagnostics: a run's, an experiment's, by name; what has none has no rows."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from fedshift.analysis.collected import diagnostics
from fedshift.common.errors import FedshiftError
from fedshift.federation.records import DiagnosticsTable
from fedshift.storage.rundir import RunDirectory
from tests.analysis.conftest import Project, accuracy
from tests.conftest import ROOT

COLUMNS = ["round", "client", "name", "index", "value"]


def record(directory: Path, scale: float) -> RunDirectory:
    """Two rounds of clients 0 and 2 of three: a number each, and a matrix."""
    table = DiagnosticsTable(3)
    for finished in (1, 2):
        table.add(finished, "drift", ("K",), [0, 2], scale * finished * np.array([1.0, 3.0]))
        table.add(finished, "agreement", ("K", "K"), [0, 2], np.array([[1, 0.5], [0.5, 1]]))
    (directory / "diagnostics.parquet").write_bytes(table.pack())
    return RunDirectory(directory)


@pytest.fixture
def two(project: Project) -> Project:
    """Seeds 0 and 1 of mine, of which both recorded; fedavg, which does not; a run that has not finished."""
    rows = {"mine": {"method": {"name": "fedprox"}}, "fedavg": None}
    project.declare(methods=rows, axes={"seed": [0, 1, 2]})
    for seed in (0, 1):
        record(project.add("mine", {1: accuracy((0.5, 0.5))}, method="fedprox", seed=seed), 1 + seed)
        project.add("fedavg", {1: accuracy((0.5, 0.5))}, seed=seed)
    project.add("mine", None, method="fedprox", seed=2)
    project.collect()
    return project


def test_of_a_run_and_of_an_experiment(two: Project) -> None:
    run = two.workspace.root / "run"
    run.mkdir()
    frame = diagnostics(two.workspace, record(run, 1.0))
    assert list(frame) == COLUMNS
    assert frame.values.tolist() == [
        row
        for t in (1, 2)
        for row in (
            [t, 0, "drift", 0, t], [t, 2, "drift", 0, 3 * t],
            [t, 0, "agreement", 0, 1], [t, 0, "agreement", 2, 0.5], [t, 2, "agreement", 0, 0.5], [t, 2, "agreement", 2, 1],
        )
    ]  # fmt: skip
    drift = frame[frame["name"] == "drift"].reset_index(drop=True)
    assert diagnostics(two.workspace, RunDirectory(run), "drift").equals(drift)
    every = diagnostics(two.workspace, two.name, "drift")
    assert list(every) == ["method", "seed", *COLUMNS]
    places = itertools.product((0, 1), (1, 2), (0, 2))
    assert every.values.tolist() == [
        ["mine", seed, t, k, "drift", 0, (1 + seed) * t * (1 + k)] for seed, t, k in places
    ]
    assert len(diagnostics(two.workspace, two.name)) == 3 * len(every)


def test_without_any_there_is_an_empty_frame_of_what_was_collected(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    with pytest.raises(FedshiftError, match="have not been collected"):
        diagnostics(project.workspace, project.name)
    project.add("fedavg", {1: accuracy((0.5, 0.5))}, seed=0)
    project.collect()
    frame = diagnostics(project.workspace, project.name)
    assert list(frame) == ["method", "seed", *COLUMNS] and not len(frame)


def test_the_page_reads_them(two: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second block of the page, in the project's folder, of its experiment."""
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "add-a-diagnostic.md").read_text(), re.DOTALL
    )
    monkeypatch.chdir(two.workspace.root)
    defined: dict[str, object] = {}
    exec(blocks[1].replace('"mine", ', f'"{two.name}", '), defined)
    assert defined["drift"].loc[2, ("mine", 2)] == 9  # type: ignore[attr-defined]
