"""`fedshift archive`, and tables of a clone that has nothing but the archive."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from fedshift.analysis.collect import collect
from fedshift.analysis.collected import beside, read
from fedshift.archive import store
from fedshift.archive.file import Archived
from fedshift.cli.results import _unwritten, shown_without_training
from fedshift.common.files import write_bytes
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from tests.archive.conftest import TINY, later, of_earlier_version, with_summary, with_table
from tests.archive.test_compare import lower
from tests.conftest import ROOT, Edit
from tests.verbs import done, fedshift, refused

pytestmark = pytest.mark.slow


@pytest.fixture
def clone(here: Workspace, tmp_path: Path) -> Workspace:
    """What git brings of a project whose runs were archived: neither results nor images."""
    done(fedshift(here.root, "archive", "tiny"))
    root = tmp_path / "clone"
    for name in ("experiments", "reference", "results-archive"):
        shutil.copytree(here.root / name, root / name)
    return Workspace(root)


def table_of(workspace: Workspace) -> pd.DataFrame:
    done(fedshift(workspace.root, "table", "tiny"))
    return pd.read_csv(workspace.tables("tiny") / "table.csv")


def test_a_clone_shows_the_tables_without_training(here: Workspace, clone: Workspace) -> None:
    done(fedshift(here.root, "collect", "tiny"))
    ours, theirs = table_of(here), table_of(clone)
    pd.testing.assert_frame_equal(ours.drop(columns="archived"), theirs.drop(columns="archived"))
    assert {*ours["archived"]} == {0} and {*theirs["archived"]} == {1} and theirs["mean"].notna().all()
    text = (clone.tables("tiny") / "table.md").read_text()
    assert "§ From the archive (results-archive/), not trained here: 2 of 2 runs, by cpu, " in text
    assert text.count("§") == 1 + len(theirs)
    assert "§" not in (here.tables("tiny") / "table.md").read_text()
    assert list(clone.runs()) == [] and not (clone.root / "data").exists()
    assert "from the archive: 2" in done(fedshift(clone.root, "collect", "tiny"))
    said = done(fedshift(clone.root, "plan", "tiny"))
    assert "Archived, of what is still to do: 2 runs" in said  # to be trained, if somebody asks for it
    (told,) = json.loads(fedshift(clone.root, "status", "tiny", "--json").stdout)
    assert (told["archived"], told["missing"], told["finished"]) == (2, 2, 0)
    shown = done(fedshift(clone.root, "status", "tiny")).splitlines()
    assert shown[0].split()[-1] == "archived" and shown[1].split()[-1] == "2"


def test_scorecard_and_report_collect_what_is_archived(clone: Workspace) -> None:
    page, made = str(clone.scorecard), str(clone.tables("tiny") / "table.md")
    nothing, last = done(fedshift(clone.root, "scorecard", "--written")).splitlines()
    assert (last, nothing[:7]) == (page, "None of")
    assert done(fedshift(clone.root, "scorecard")).splitlines()[::2] == [made, page]
    assert {*pd.read_csv(clone.tables("tiny") / "table.csv")["archived"]} == {1}
    assert done(fedshift(clone.root, "scorecard")).splitlines()[1:] == [page]
    shutil.rmtree(clone.results)
    report = clone.report("tiny") / "index.html"
    assert done(fedshift(clone.root, "report", "tiny")).split() == [str(report)]
    assert "§ From the archive" in report.read_text()
    shutil.rmtree(clone.results)
    shutil.rmtree(clone.archive)
    refused(fedshift(clone.root, "report", "tiny"), "no run of it is finished here or archived")


def test_a_scorecard_finds_the_experiments_of_which_something_is_archived(clone: Workspace) -> None:
    others: dict[str, dict[str, Any]] = {
        "declared": {"train": False, "tables": {"main": {"metrics": ["setting.local.lr"]}}},
        "longer": {"spec": {"federation": {"rounds": 3}, "local": {"epochs": 1}}},  # in the same folder
        "plain_and_ink": {"methods": {"local": None, "fedbn": None}, "axes": {"target": ["ink", "plain"], "seed": [1, 0]}},
        "seeds": {"axes": {"target": ["plain"], "seed": [1]}},
        "tuned": {"tune": {"budget": 2, "seeds": [100]}},
        "without_tables": {"tables": {}},
    }  # fmt: skip
    for name, changes in others.items():
        (clone.experiments / f"{name}.yaml").write_text(yaml.safe_dump({**TINY, **changes}, sort_keys=False))
    found = [name for name in _unwritten(clone) if shown_without_training(clone, load(clone, name))]
    assert found == ["declared", "plain_and_ink", "tiny"]


def test_what_has_changed_since_is_collected_again(clone: Workspace, tmp_path: Path) -> None:
    """As after `git pull`: the tables were made of one run, or of one method; after an upgrade: the file of runs lacks a column."""
    (later,) = clone.archive.rglob("*/fedbn/**/*.zip")
    later.rename(tmp_path / later.name)
    assert table_of(clone).groupby("method")["mean"].count().to_dict() == {"fedavg": 3, "fedbn": 0}
    before = clone.metrics("tiny").stat().st_mtime_ns
    table_of(clone)
    assert clone.metrics("tiny").stat().st_mtime_ns == before
    (tmp_path / later.name).rename(later)
    whole = table_of(clone)
    assert whole.groupby("method")["mean"].count().to_dict() == {"fedavg": 3, "fedbn": 3}
    file = clone.experiments / "tiny.yaml"
    grown = file.read_text()
    file.write_text(yaml.safe_dump({**TINY, "methods": {"fedavg": None}}, sort_keys=False))
    assert {*table_of(clone)["method"]} == {"fedavg"}
    file.write_text(grown)
    assert table_of(clone).equals(whole)
    runs = beside(clone.metrics("tiny"), "runs")
    pq.write_table(pq.read_table(runs).drop_columns(["rounds"]), runs)
    assert table_of(clone).equals(whole) and "rounds" in pq.read_schema(runs).names


def test_adapted_rows_come_from_the_archive_too(here: Workspace, tmp_path: Path) -> None:
    adapted = {**TINY, "adapt": {"fedbn-adapted": {"run": "fedbn", "name": "fedbn"}}}
    (here.experiments / "tiny.yaml").write_text(yaml.safe_dump(adapted, sort_keys=False))
    done(fedshift(here.root, "evaluate", "tiny", "--device", "cpu"))
    done(fedshift(here.root, "archive", "tiny"))
    done(fedshift(here.root, "collect", "tiny"))
    ours = table_of(here)
    shutil.rmtree(here.results)
    theirs = table_of(here)
    assert "fedbn-adapted" in {*theirs["method"]}
    pd.testing.assert_frame_equal(ours.drop(columns="archived"), theirs.drop(columns="archived"))


def test_an_own_run_comes_before_the_archived_one(here: Workspace, clone: Workspace) -> None:
    """Of two runs one is trained in the clone, too."""
    (own,) = [run for run in here.runs() if "fedavg" in run.path.parts]
    shutil.copytree(own.path, clone.run(here.name_of(own)).path)
    runs = collect(clone, "tiny").runs.set_index("method")
    assert dict(runs["source"]) == {"fedavg": "own", "fedbn": "archive"}
    assert runs.loc["fedavg", "run"] == f"results/runs/{here.name_of(own)}"
    cells = table_of(clone).set_index("method")["archived"]
    assert {*cells["fedavg"]} == {0} and {*cells["fedbn"]} == {1}


def test_a_run_of_a_changed_method_counts_and_is_told(clone: Workspace, edited: Edit) -> None:
    edited("fedshift.methods.fedbn", "version = 2", "version = 1 + 1")
    collected = collect(clone, "tiny")
    assert not collected.missing and {*collected.runs["source"]} == {"archive"}
    runs = collected.runs.set_index("method")
    assert dict(runs["code"] != runs["installed"]) == {"fedavg": False, "fedbn": True}
    told = done(fedshift(clone.root, "table", "tiny"))
    assert "The file of the method or model has changed since 1 of 2 runs were trained: fedbn (1)." in told


def test_a_file_of_an_earlier_version_is_shown_and_is_of_no_changed_method(clone: Workspace) -> None:
    expected = table_of(clone)
    for one in store.files(clone):
        of_earlier_version(one)
    shutil.rmtree(clone.results)
    assert table_of(clone).equals(expected)
    collected = read(clone, "tiny")
    assert {*collected.runs["code"]} == {""} and {*collected.runs["source"]} == {"archive"}
    assert "has changed since" not in done(fedshift(clone.root, "table", "tiny"))
    assert "2 archived runs are whole" in done(fedshift(clone.root, "archive", "--check", "tiny"))


def test_a_doctored_file_is_refused_before_tables_are_made(clone: Workspace) -> None:
    (one,) = [one for one in store.files(clone) if "/fedbn/" in one.index.run]
    new = with_table(one, "metrics.parquet", lambda table: table.drop_columns(["value"]))
    refused(fedshift(clone.root, "table", "tiny"), f"{new.path}: metrics.parquet", "column 'value'")
    said = f"rejected: {new.path}: metrics.parquet", "1 archived runs are whole", "1 files are rejected"
    refused(fedshift(clone.root, "archive", "--check"), *said)
    refused(fedshift(clone.root, "archive", "--check", "tiny"), "1 files are rejected")


def test_archive_check_and_compare(here: Workspace) -> None:
    said = done(fedshift(here.root, "archive", "tiny"))
    assert said.count("archived  ") == 2 and "2 archived" in said and "0 of 2 runs are not finished" in said
    assert "0 archived (0.00 MB), 2 were there" in done(fedshift(here.root, "archive", "tiny"))
    said = done(fedshift(here.root, "archive", "--check"))
    assert "2 archived runs are whole" in said and "0 not the newest" in said and "     2  cpu " in said
    said = done(fedshift(here.root, "archive", "tiny", "--compare"))
    assert said.count("equal bit for bit (same machine class)") == 2 and "2 of 2 archived runs" in said
    with_table(store.files(here)[0], "metrics.parquet", lambda table: lower(table, 1))
    result = fedshift(here.root, "archive", "tiny", "--compare")
    assert result.exit_code == 1 and "FAIL  digits/fedavg/plain/seed0/" in result.output
    assert "differs by 1.0 points" in result.output and "1 of 2 archived runs" in result.output


def test_the_list_has_a_line_a_run_with_what_it_took(here: Workspace) -> None:
    done(fedshift(here.root, "archive", "tiny"))
    lines = [line.split("  ") for line in done(fedshift(here.root, "archive", "--list")).splitlines()]
    heads, *runs, total = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert heads == [*store.COLUMNS]
    files = {one.digest: one for one in store.files(here)}
    assert {run[4] for run in runs} == {*files} and len(runs) == 2
    for name, rounds, px, precision, digest, _, day, machine, hours, size in runs:
        assert Path(name) == here.archived(files[digest].index.run).relative_to(here.archive)
        assert (rounds, px, precision) == ("2", "32", "fp32") and machine == str(files[digest].machine)
        summary = files[digest].summary
        assert day == f"{pd.Timestamp(summary['finished'], unit='s'):%Y-%m-%d}"
        assert hours == f"{summary['costs']['seconds'] / 3600:.2f}"
        assert size == f"{files[digest].path.stat().st_size / 1e3:.0f}"
    assert total[0] == "2 runs" and int(total[2]) == round(sum(len(one.data) for one in files.values()) / 1e3)
    damaged = store.files(here)[0].path
    damaged.write_bytes(damaged.read_bytes()[:-9])
    refused(fedshift(here.root, "archive", "tiny", "--list"), str(damaged), "is not a whole ZIP file")


def test_the_list_has_the_rounds_that_were_trained_and_no_hours_of_an_earlier_version(
    archived: Archived,
) -> None:
    def stopped(summary: dict[str, Any]) -> None:
        summary["rounds"], summary["costs"]["seconds"] = 1, 3600.0

    early = with_summary(archived, stopped)
    line, _ = store.listed([early])
    assert (line[1], line[-2]) == ("1", "1.00")
    line, total = store.listed([of_earlier_version(early)])  # which recorded no seconds
    assert (line[-2], total[-2]) == ("0.00", "0.0")


def test_what_a_merge_left_is_told_and_cleared(here: Workspace) -> None:
    """The newest of a run stays."""
    done(fedshift(here.root, "archive", "tiny"))
    old = store.files(here)[0]
    later(here.run(old.index.run))
    assert f"removed   {old.path}" in done(fedshift(here.root, "archive", "tiny"))
    write_bytes(old.path, old.data)
    assert f"not the newest of its run: {old.path}" in done(fedshift(here.root, "archive", "--check"))
    assert f"removed   {old.path}" in done(fedshift(here.root, "archive", "tiny"))
    assert not old.path.exists() and len(store.files(here)) == 2


def test_the_projects_own_archive_is_whole() -> None:
    done(fedshift(ROOT, "archive", "--check"))


def test_arguments_that_make_no_sense_are_refused(here: Workspace) -> None:
    for words, said in (
        ((), "no experiment is named"),
        (("tiny", "--check", "--compare"), "are three things"),
        (("--check", "--list"), "are three things"),
        (("tini",), "tiny"),
    ):
        refused(fedshift(here.root, "archive", *words), said)
