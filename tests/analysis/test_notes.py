"""Notes below tables that no archived run has: mixed images, changed code, classes that a domain lacks."""

import itertools
from pathlib import Path
from typing import Any

from fedshift.analysis.notes import notes

from .conftest import Project, accuracy, changed

HALF = {1: accuracy((0.5, 0.5))}
ROWS = [*itertools.product(("fedavg", "fedbn"), (0, 1))]


def two_rows(project: Project, **second: Any) -> list[Path]:
    """FedAvg and FedBN with two seeds each; second: what is particular to FedBN's second seed."""
    project.declare(methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {}})
    return [
        project.add(row, HALF, seed=seed, **(second if (row, seed) == ROWS[-1] else {})) for row, seed in ROWS
    ]


def noted(project: Project, words: str) -> str:
    (line,) = (line for line in notes(project.collect()) if words in line)
    return line


def test_images_in_several_states_are_told_by_method(project: Project) -> None:
    two_rows(project, images="0ther5")
    assert noted(project, "Mixed images").endswith(": 1ma9e5 (fedavg, fedbn); 0ther5 (fedbn).")


def test_runs_of_a_changed_method_are_named_and_counted(project: Project) -> None:
    """Of two of FedAvg one was trained by an earlier version, which did not record its code."""
    _, earlier, *_ = two_rows(project)
    told = "".join(notes(project.collect()))
    assert "has changed" not in told and "Mixed images" not in told
    changed(earlier, method_code=None)
    project.runs[:2] = [run._replace(code="0ther001") for run in project.runs[:2]]
    line = noted(project, "has changed")
    said = "The file of the method or model has changed since 1 of 4 runs were trained: fedavg (1)."
    assert line.startswith(said) and "fedshift plan --retrain-changed" in line


def test_a_class_that_a_domain_lacks_is_noted(project: Project) -> None:
    many = [f"class{number}" for number in range(50)]
    for run in two_rows(project):
        changed(run, absent={"Rural": ["effusion"], "Coast": many})
    note = noted(project, "Rural")
    assert "Rural (effusion)" in note and "class0" in note and "class49" not in note and "40 more" in note
