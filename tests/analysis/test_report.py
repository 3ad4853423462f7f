"""The report: one file that asks for nothing, holds what the tables hold, and names what is not there."""

import json
import shutil
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from fedshift.analysis import report
from fedshift.analysis.collected import Collected, read
from fedshift.analysis.page import number, piped
from fedshift.analysis.report import costs, summaries, unfinished
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from tests.conftest import ROOT
from tests.verbs import done, fedshift, refused

from .conftest import Project, accuracy, changed

pytestmark = pytest.mark.slow

TEMPLATES = ROOT / "src" / "fedshift" / "analysis" / "templates"


class Links(HTMLParser):
    """Every address that the page's own markup names, and its content policy."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.addresses += [given[name] or "" for name in ("src", "href", "srcset", "action") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""


Written = tuple[Project, Collected, str]


@pytest.fixture
def written(project: Project) -> Written:
    """FedAvg, finished; Local without its first seed, of which one run has failed."""
    project.declare(
        methods={"fedavg": None, "local": None},
        axes={"target": ["plain", "ink"], "seed": [0, 1]},
        tables={"main": {"title": "By target <b>", "columns": ["target"]}},
    )
    for target in ("plain", "ink"):
        for seed in (0, 1):
            rounds = {0: accuracy((0.1, 0.1), 0.1), 1: accuracy((0.5, 0.7), 0.25 + seed / 2)}
            project.add("fedavg", rounds, target=target, seed=seed)
            project.add("local", rounds if seed else None, target=target, seed=seed)
    failed = project.workspace.root / project.runs[1].directory
    failed.mkdir(parents=True)
    write_json(failed / "failure.json", {"text": "the loss is nan", "retry": False})
    collected = project.collect()
    return project, collected, report.write(project.workspace, ["toy"], "toy").read_text()


def test_the_page_asks_for_nothing_and_shows_what_there_is_and_is_not(written: Written) -> None:
    _, collected, page = written
    links = Links(page)
    assert links.policy.startswith("default-src 'none'") and "http" not in links.policy
    assert [address for address in links.addresses if not address.startswith(("#", "data:"))] == []
    inner = {address[1:] for address in links.addresses if address.startswith("#")}
    assert {"toy-table0", "toy-notes", "toy-figure0", "toy-holders", "toy-costs", "toy-sources"} <= inner
    assert [name for name in inner if f'id="{name}"' not in page] == []
    assert "By target &lt;b&gt;" in page and "By target <b>" not in page
    assert "60.0 ± 0.0" in page and "50.0 ± 35.4" in page  # id: of .5 and .7; ood: of 25 and 75
    rows = unfinished(collected).to_dict("records")
    assert [(row["state"], row["method"], row["n"], row["target"], row["seed"]) for row in rows] == [
        ("failed", "local", 1, "plain", "0"),
        ("missing", "local", 1, "ink", "0"),
    ]
    assert "the loss is nan" in page
    assert "6 of 8 runs are finished." in page and "2 runs are not finished, 1 of them failed" in page


def test_the_scorecard_is_linked_where_it_is(written: Written) -> None:
    workspace = written[0].workspace
    workspace.scorecard.touch()
    for name, above in (("toy", "../../"), ("papers/toy", "../../../")):
        found = report.write(workspace, ["toy"], name)
        assert f"{above}scorecard.html" in Links(found.read_text()).addresses
        assert (found.parent / f"{above}scorecard.html").is_file()


def test_costs_scores_and_curves_are_means_of_finished_runs(written: Written) -> None:
    project, collected, _ = written
    table = costs(collected, summaries(project.workspace, collected)).set_index("method")
    assert table.loc["fedavg", ["runs", "ood", "memory", "seconds"]].tolist() == [4, 50.0, 90.0, 1.5]
    assert table.loc["local", ["runs", "ood"]].tolist() == [2, 75.0]
    assert table.loc["fedavg", "sent"] == pytest.approx(160e-6)
    folder = project.workspace.root / "results" / "report" / "toy"
    fedavg, local = ({"id": 60.0, "ood": ood, "finished": n} for ood, n in ((50.0, 4), (75.0, 2)))
    assert json.loads((folder / "scores.json").read_text()) == {"toy": {"fedavg": fedavg, "local": local}}
    frame = pd.read_csv(folder / "curves.csv")
    assert list(frame.columns) == ["panel", "method", "round", "id", "ood"]
    assert not frame.duplicated(["panel", "method", "round"]).any()
    last = frame[frame["round"] == frame["round"].max()].groupby("method")["ood"].mean()
    assert last.to_dict() == {"fedavg": 50.0, "local": 75.0}


def test_costs_count_all_passes_and_nothing_travels_where_one_client_holds_all(project: Project) -> None:
    """Ditto trains two networks on every batch; with `centralized` StableFDG pools its clients as central does."""
    pooled = {"method": {"params": {"centralized": True}}}
    rows = {"fedavg": None, "ditto": None, "central": None, "stablefdg": pooled}
    project.declare(methods=rows, axes={"seed": [0]}, spec={"model": {"name": "digits_cnn"}})
    for cell in expand(project.workspace, load(project.workspace, "toy")):
        run = project.add(cell.label, {1: accuracy((0.5, 0.7))}, spec=cell.spec, **cell.axes)
        passes = 2e9 if cell.label == "ditto" else 1e9
        changed(run, costs={"images": 1e9, "forward_passes": passes, "backward_passes": passes})
    collected = project.collect()
    table = costs(collected, summaries(project.workspace, collected)).set_index("method")
    assert table["gmacs_forward"].to_dict() == {"fedavg": 7, "ditto": 14, "central": 7, "stablefdg": 7}
    assert table["gmacs_backward"].tolist() == [14, 28, 14, 14]
    assert table[["up", "down", "sent"]].isna().all(axis=1).tolist() == [False, False, True, True]
    dots = report.against_costs(collected, table.reset_index()).frame.groupby("panel")["label"].agg(list)
    assert dots["sent and received in a run (MB)"] == ["fedavg", "ditto"]
    assert dots["duration of a run (s)"] == ["fedavg", "ditto", "central", "stablefdg"]
    page = report.write(project.workspace, ["toy"], "toy").read_text()
    central = page[page.index(">Costs</h2>") :].split("<tr><th>central</th>")[1].split("</tr>")[0]
    assert central.startswith("<td>1</td><td>–</td><td>–</td>")


def test_summaries_come_from_pack_stamps_where_run_directories_are_absent(written: Written) -> None:
    project, _, _ = written
    collected = read(project.workspace, "toy")
    before = summaries(project.workspace, collected)
    write_json(project.workspace.pack("0123").path, {"pack": "0123", "finished": before, "failed": {}})
    shutil.rmtree(project.workspace.results / "runs")
    assert len(before) == 6 and summaries(project.workspace, collected) == before


def test_an_absent_experiment_is_named_and_none_at_all_is_a_mistake(written: Written) -> None:
    workspace = written[0].workspace
    assert "fedshift collect other" in report.write(workspace, ["other", "toy"], "all").read_text()
    with pytest.raises(FedshiftError, match="no runs have been collected"):
        report.write(workspace, ["other"], "other")
    assert "results/report/toy/index.html" in done(fedshift(workspace.root, "report", "toy"))
    chosen = fedshift(workspace.root, "report", "toy", "--set", "mine")
    assert "results/report/mine/index.html" in done(chosen)
    refused(fedshift(workspace.root, "report", "toy", "--set", "../../mine"), "not below results/report")


def test_a_wheel_holds_every_template(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = {f"fedshift/analysis/templates/{path.name}" for path in TEMPLATES.iterdir()}
    assert len(names) > 2 and names <= {*zipfile.ZipFile(wheel).namelist()}


def test_cells_of_pages() -> None:
    """A bar within a cell does not end it; numbers have three digits or so."""
    assert piped([["row", "value"], ["a|b", "1"]], ["---", "--:"]).splitlines()[-1] == r"| a\|b | 1 |"
    assert [number(value) for value in (1234.5, 12.345, 0.5, float("nan"))] == ["1,234", "12.3", "0.5", "–"]
