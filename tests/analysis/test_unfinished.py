"""An experiment that is half done: what can be shown is shown, what cannot is named."""

from pathlib import Path

import pytest

import fedshift as package
from fedshift.analysis import ranking
from fedshift.analysis.collected import Collected
from fedshift.common.errors import FedshiftError
from tests.verbs import done, fedshift, refused

from .conftest import Project, accuracy

pytestmark = pytest.mark.slow

METHODS, DOMAINS = ("fedavg", "fedbn", "ditto"), ("ink", "outline", "plain")
FINISHED = {("fedavg", target) for target in DOMAINS}
HALF = FINISHED | {("fedbn", "ink"), ("fedbn", "plain"), ("ditto", "outline")}


def half(project: Project, finished: set[tuple[str, str]], *figures: str) -> Collected:
    """Three methods on three domains, of which these have been trained."""
    values = {
        (method, target, 0): 0.5 if (method, target) in finished else None
        for method in METHODS
        for target in DOMAINS
    }
    return project.trained(values, tables={"t": {}}, figures=[*figures] or ["curves", "ranks"])


def test_a_figure_that_cannot_be_drawn_leaves_the_others_and_the_report(project: Project) -> None:
    half(project, FINISHED)
    root, folder = project.workspace.root, project.workspace.figures("toy")
    folder.mkdir(parents=True)
    (folder / "ranks.svg").touch()  # of results that are gone
    result = fedshift(root, "figure", "toy")
    assert "results/figures/toy/curves.svg" in done(result)
    assert "not drawn: ranks: ranking: " in result.output
    assert not (folder / "ranks.svg").exists()
    assert "\nfedavg  50.0" in done(fedshift(root, "table", "toy"))
    done(fedshift(root, "report", "toy"))
    page = (project.workspace.report("toy") / "index.html").read_text()
    assert "Accuracy" in page and "ranks: ranking: 1 methods have all seeds" in page


def test_no_figure_at_all_is_an_error_except_to_the_workflow(project: Project) -> None:
    half(project, FINISHED, "ranks")
    refused(fedshift(project.workspace.root, "figure", "toy"), "not drawn: ranks", "Train more")
    done(fedshift(project.workspace.root, "figure", "toy", "--lenient"))
    done(fedshift(project.workspace.root, "report", "toy"))


def test_methods_are_ranked_over_the_blocks_that_they_share(project: Project) -> None:
    """Of three methods one has a single domain: no two domains are left that all three have."""
    result = ranking.ranking([half(project, HALF)], "ood")
    assert {*result.table["method"]} == {"fedavg", "fedbn"} and result.blocks == 2
    assert result.left[0].startswith("ditto:")
    shown = done(fedshift(project.workspace.root, "rank", "toy"))
    assert "Mean over 2 pairs" in shown and "Left out: ditto" in shown


def test_nothing_finished_is_an_error_and_writes_nothing(project: Project) -> None:
    with pytest.raises(FedshiftError, match="no run of it is finished here or archived"):
        half(project, set())
    root = project.workspace.root
    for verb in ("collect", "table", "figure", "rank", "report"):
        refused(fedshift(root, verb, "toy"), "no run of it is finished here or archived", "fedshift run toy")
    with pytest.raises(FedshiftError, match="no run of it is finished"):
        package.results("toy", root=root)
    assert not [*Path(root).rglob("*.parquet")]


def test_collect_names_runs_whose_records_are_not_finite(project: Project) -> None:
    project.declare(methods={"fedavg": None, "local": None}, axes={"target": ["ink"]})
    for method, loss in (("fedavg", float("nan")), ("local", 1.0)):
        project.add(method, {1: accuracy((0.5, 0.5), ood=0.5)}, loss=loss, target="ink")
    told = fedshift(project.workspace.root, "collect", "toy", "--plan", str(project.plan()))
    assert "not finite: records of 1 runs, fedavg target=ink from round 1 on" in done(told)
    assert "Lower local.lr" in told.output and "local target" not in told.output
