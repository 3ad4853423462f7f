"""The report: one file that asks for nothing, holds what the tables hold, and names what is not there."""

import base64
import json
import shutil
from html.parser import HTMLParser

import pandas as pd
import pytest
from click.testing import CliRunner

from fedshift.analysis import latex, report, tables
from fedshift.analysis.collected import read
from fedshift.analysis.figures import draw
from fedshift.analysis.report import costs, summaries, unfinished
from fedshift.cli import main
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from tests.analysis.conftest import Project, accuracy


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


@pytest.fixture
def written(project: Project) -> tuple[Project, str]:
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
    project.collect()
    return project, report.write(project.workspace, ["toy"], "toy").read_text()


def test_page_asks_for_nothing_and_may_not(written: tuple[Project, str]) -> None:
    links = Links(written[1])
    assert [address for address in links.addresses if not address.startswith(("#", "data:"))] == []
    assert links.policy.startswith("default-src 'none'")
    assert "http" not in links.policy


def test_the_front_page_links_to_the_scorecard_that_is_there(written: tuple[Project, str]) -> None:
    workspace = written[0].workspace
    workspace.scorecard.touch()
    for name, link in (("toy", "../../scorecard.html"), ("papers/toy", "../../../scorecard.html")):
        page = report.write(workspace, ["toy"], name)
        assert link in Links(page.read_text()).addresses and (page.parent / link).is_file()


def test_contents_lead_to_headings(written: tuple[Project, str]) -> None:
    inner = {address[1:] for address in Links(written[1]).addresses if address.startswith("#")}
    assert {"toy-table0", "toy-notes", "toy-figure0", "toy-holders", "toy-costs", "toy-sources"} <= inner
    assert [name for name in inner if f'id="{name}"' not in written[1]] == []


def test_a_table_is_downloaded_as_it_is_written(written: tuple[Project, str]) -> None:
    workspace = written[0].workspace
    tables.write(workspace, read(workspace, "toy"))
    coded = [
        address for address in Links(written[1]).addresses if address.startswith(("data:text", "data:app"))
    ]
    given = [base64.b64decode(address.partition(";base64,")[2]).decode() for address in coded]
    assert given[0] == (workspace.tables("toy") / "main.csv").read_text()
    latex.write(workspace, read(workspace, "toy"), workspace.exported("toy"))
    assert given[1] == (workspace.exported("toy") / "main.tex").read_text()
    assert len(given) == 2 and given[1].startswith("\\begin{table}")


def test_a_figure_is_downloaded_where_it_was_drawn(written: tuple[Project, str]) -> None:
    workspace = written[0].workspace
    assert "curves.svg" not in written[1]
    draw.write(workspace, read(workspace, "toy"))
    page = report.write(workspace, ["toy"], "toy")
    files = [page.parent / address for address in Links(page.read_text()).addresses if "figures/" in address]
    assert [file.suffix for file in files] == [".svg", ".pdf", ".png", ".csv"]
    assert all(file.is_file() for file in files)


def test_page_shows_the_table_and_escapes_titles(written: tuple[Project, str]) -> None:
    page = written[1]
    assert "By target &lt;b&gt;" in page and "By target <b>" not in page
    assert "60.0 ± 0.0" in page  # id of fedavg: mean of .5 and .7, both seeds
    assert "50.0 ± 35.4" in page  # ood: 25 and 75


def test_page_names_what_is_not_there(written: tuple[Project, str]) -> None:
    project, page = written
    collected = read(project.workspace, "toy")
    rows = unfinished(collected).to_dict("records")
    assert [(row["state"], row["method"], row["n"], row["target"], row["seed"]) for row in rows] == [
        ("failed", "local", 1, "plain", "0"),
        ("missing", "local", 1, "ink", "0"),
    ]
    assert "the loss is nan" in page
    assert "6 of 8 runs are finished." in page and "2 runs are not finished, 1 of them failed" in page


def test_costs_are_means_of_finished_runs(written: tuple[Project, str]) -> None:
    project = written[0]
    collected = read(project.workspace, "toy")
    table = costs(collected, summaries(project.workspace, collected)).set_index("method")
    assert table.loc["fedavg", ["runs", "ood", "memory", "seconds"]].tolist() == [4, 50.0, 90.0, 1.5]
    assert table.loc["local", ["runs", "ood"]].tolist() == [2, 75.0]
    assert table.loc["fedavg", "sent"] == pytest.approx(160e-6)
    scores = json.loads((project.workspace.root / "results/report/toy/scores.json").read_text())
    assert scores == {
        "toy": {
            "fedavg": {"id": 60.0, "ood": 50.0, "finished": 4},
            "local": {"id": 60.0, "ood": 75.0, "finished": 2},
        }
    }


def test_curves_are_means_over_seeds(written: tuple[Project, str]) -> None:
    frame = pd.read_csv(written[0].workspace.root / "results/report/toy/curves.csv")
    assert list(frame.columns) == ["panel", "method", "round", "id", "ood"]
    assert not frame.duplicated(["panel", "method", "round"]).any()
    last = frame[frame["round"] == frame["round"].max()].groupby("method")["ood"].mean()
    assert last.to_dict() == {"fedavg": 50.0, "local": 75.0}


def test_costs_count_all_passes_and_nothing_travels_where_one_client_holds_all(project: Project) -> None:
    """Ditto trains two networks on every batch; with `centralized` StableFDG pools its clients as central does."""
    project.declare(
        methods={"fedavg": None, "ditto": None, "central": None, "stablefdg": {"method": {"params": {"centralized": True}}}},
        axes={"seed": [0]},
        spec={"model": {"name": "digits_cnn"}},
    )  # fmt: skip
    for cell in expand(project.workspace, load(project.workspace, "toy")):
        directory = project.add(cell.label, {1: accuracy((0.5, 0.7))}, spec=cell.spec, **cell.axes)
        summary = json.loads((directory / "summary.json").read_text())
        passes = 2e9 if cell.label == "ditto" else 1e9
        summary["costs"] |= {"images": 1e9, "forward_passes": passes, "backward_passes": passes}
        write_json(directory / "summary.json", summary)
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


def test_summaries_come_from_pack_stamps_where_run_directories_are_absent(
    written: tuple[Project, str],
) -> None:
    project = written[0]
    collected = read(project.workspace, "toy")
    before = summaries(project.workspace, collected)
    write_json(project.workspace.pack("0123").path, {"pack": "0123", "finished": before, "failed": {}})
    shutil.rmtree(project.workspace.results / "runs")
    assert len(before) == 6
    assert summaries(project.workspace, collected) == before


def test_absent_experiment_is_named_and_none_at_all_is_a_mistake(written: tuple[Project, str]) -> None:
    project = written[0]
    page = report.write(project.workspace, ["other", "toy"], "all").read_text()
    assert "fedshift collect other" in page
    with pytest.raises(FedshiftError, match="no runs have been collected"):
        report.write(project.workspace, ["other"], "other")


def test_verb_writes_below_the_name_of_the_set(written: tuple[Project, str]) -> None:
    root = str(written[0].workspace.root)
    assert (
        "results/report/toy/index.html" in CliRunner().invoke(main, ["--root", root, "report", "toy"]).output
    )
    chosen = CliRunner().invoke(main, ["--root", root, "report", "toy", "--set", "mine"])
    assert "results/report/mine/index.html" in chosen.output
