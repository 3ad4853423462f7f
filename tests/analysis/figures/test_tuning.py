"""Tuning: every point that was tried, and which was taken."""

from __future__ import annotations

from fedshift.analysis.drawing.panels import Panels, table
from fedshift.analysis.figures.tuning import TAKEN, Tuning
from fedshift.experiments.expand import expand
from fedshift.experiments.tuning import read_choice
from tests.analysis.conftest import Project, accuracy
from tests.analysis.test_tuning import Values, searched

VALUES: Values = {0.1: (0.5, 0.9), 0.2: (0.7, 0.2), 0.3: (0.6, 0.8)}  # rate -> validation, test


def drawn(project: Project, values: Values) -> Panels:
    from fedshift.analysis import tuning

    experiment, search = searched(project, values)
    tuning.write(project.workspace, experiment, search)
    choice = read_choice(project.workspace, experiment.name)
    project.name = "toy"
    for cell in expand(project.workspace, experiment, choice):
        project.add(cell.label, {1: accuracy((0.5, 0.5), 0.5)}, spec=cell.spec, **cell.axes)
    return Tuning(Tuning.Params()).panels(project.workspace, project.collect())


def points(panels: Panels, mark: str) -> list[tuple[str, float]]:
    values = table(panels)
    values = values[(values["label"] == "held out: plain") & (values["mark"] == mark)]
    return sorted((x, round(y, 6)) for x, y in zip(values["x"], values["y"], strict=True))


def test_every_point_by_validation_and_the_choice(project: Project) -> None:
    panels = drawn(project, VALUES)
    assert points(panels, "point") == [("0.1", 51), ("0.2", 71), ("0.3", 61)]  # the second seed is 2 above
    assert points(panels, TAKEN) == [("0.2", 71)]


def test_a_planted_error_is_noticed(project: Project) -> None:
    """Validation and test swapped: another point is taken, and shown as taken."""
    swapped: Values = {rate: (test, val) for rate, (val, test) in VALUES.items()}
    assert points(drawn(project, swapped), TAKEN) == [("0.1", 91)]
