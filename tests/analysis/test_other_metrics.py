"""Tables with other metrics than their own."""

from fedshift.analysis import tables

from .conftest import Project, accuracy


def test_tables_keep_their_titles_and_one_without_has_its_name(project: Project) -> None:
    project.declare(
        methods={"fedavg": None}, axes={"seed": [0]}, tables={"t": {"title": "By target"}, "plain": {}}
    )
    project.add("fedavg", {1: accuracy((0.5, 0.7), ood=0.3)}, seed=0)
    text = tables.with_metrics(project.workspace, project.collect(), ["accuracy.worst"])
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## By target", "## plain"]
    assert "50.0" in text
