"""What is said of a mistake names the next command, and that command works."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from fedshift.common.errors import nearest
from fedshift.planning import planfile
from tests.conftest import ROOT
from tests.verbs import done, fedshift, refused

FOLDER = """\
title: Own
protocol: digits
spec: {data: {dataset: folder, release: mine}}
methods: {fedavg: }
axes: {target: all, seed: [0]}
"""
TINY = """\
title: Tiny
protocol: digits
spec: {partition: {scheme: clients_per_domain, params: {clients: 6}}, federation: {rounds: 1}, local: {epochs: 1}}
methods: {fedavg: }
axes: {target: [plain], seed: [3]}
"""


@pytest.mark.parametrize("prepared", [True, False])
def test_training_makes_the_partition_that_is_missing(
    project: Path, capfd: pytest.CaptureFixture[str], prepared: bool
) -> None:
    """Where it cannot be made its runs are left alone: one that failed for want of it would count as failed for good."""
    (project / "experiments" / "tiny.yaml").write_text(TINY)
    path = project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip()
    (run,) = planfile.runs(path)
    if not prepared:
        shutil.rmtree(project / "data" / "prepared" / "digits")
    result = fedshift(project, "train-pack", "--plan", str(path), "--pack", run.pack)
    assert result.exit_code == (not prepared)
    assert (project / run.directory / "summary.json").is_file() == prepared
    if prepared:
        made = project / run.partition
        assert {file.name for file in made.parent.iterdir()} == {made.name, f"{made.stem}.png"}
    else:
        assert "Run: fedshift prepare digits --release original --px 32" in capfd.readouterr().err
        assert not (project / run.directory).exists()


@pytest.mark.slow
def test_a_folder_of_experiments_is_all_in_it(project: Path) -> None:
    """Except a tuned one whose settings are not chosen."""
    folder = sorted(path.stem for path in (project / "experiments" / "unified").glob("*.yaml"))
    folder.remove("tuned")
    told = done(fedshift(project, "status", "unified"))
    rows = [f"unified/{name}" for name in folder]
    assert [line.split()[0] for line in told.splitlines()[1 : len(rows) + 1]] == rows
    told = done(fedshift(project, "plan", "unified", "demo"))
    assert [line.split()[0] for line in told.splitlines()[1 : len(rows) + 2]] == ["demo", *rows]
    refused(fedshift(project, "report", "unified"), f"unified/{folder[0]}", "no run of it is finished here")


def test_one_experiment_is_not_a_folder_of_them(project: Path) -> None:
    said = "experiments/unified: is a folder of experiments, not an experiment"
    refused(fedshift(project, "table", "unified"), said, "Name one: unified/board, ")


def test_all_targets_of_a_folder_are_named_by_the_command_that_is_told(project: Path, tmp_path: Path) -> None:
    (project / "experiments" / "own.yaml").write_text(FOLDER)
    said = fedshift(project, "plan", "own")
    refused(said, "axes.target: 'all' requests the domains of 'folder'", "List them: `target: [a, b]`")
    (command,) = re.findall(r"see them: (fedshift .*)", said.output)
    refused(fedshift(project, *shlex.split(command)[1:]), "Run: fedshift fetch folder --release mine")


@pytest.mark.parametrize(
    "verb", ["plan", "status", "run", "collect", "table", "figure", "report", "rank", "track"]
)
def test_an_unknown_experiment_is_not_answered_with_all_of_them(project: Path, verb: str) -> None:
    """It was: 97 names in one line."""
    for name, said, most in (
        ("zzz", "unknown experiment 'zzz'", 200),
        ("hfedf/tabl", "Did you mean 'hfedf/table10' or", 300),
    ):
        result = fedshift(project, verb, name)
        refused(result, said, "fedshift list experiments")
        assert len(result.output) < most


def test_nor_is_an_unknown_method(project: Path) -> None:
    result = fedshift(project, "train", "zzz", "--data", "digits")
    refused(result, "unknown method 'zzz'", "fedshift list methods")
    assert "scaffold" not in result.output
    assert nearest("x", map(str, range(40))) == "Valid: 0, 1, 10, 11 and 36 others."
    assert nearest("x", "abc") == "Valid: a, b, c."


@pytest.mark.slow
def test_an_experiment_that_was_never_run_names_its_cost_and_archived_relatives(project: Path) -> None:
    (project / "results-archive").symlink_to(ROOT / "results-archive")
    result = fedshift(project, "table", "fdse/table1")
    refused(result, "days of a GPU", "fdse/table1_office_tf32")


def test_a_run_that_is_not_there_is_named_by_path_too(project: Path, tmp_path: Path) -> None:
    for name in ("/no/such/run", "[x", "a/../b"):
        refused(fedshift(project, "predict", name, str(tmp_path)), f"no finished run is called '{name}'")


def test_a_partition_that_cannot_be_made_does_not_stop_the_other_runs(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    axes = "{target: [plain], seed: [3], alpha: {key: partition.params.alpha, values: [0.001, 10]}}"
    text = TINY.replace(
        "clients_per_domain, params: {clients: 6}", "dirichlet, params: {clients: 12, min_size: 60}"
    )
    (project / "experiments" / "tiny.yaml").write_text(text.replace("{target: [plain], seed: [3]}", axes))
    path = project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip()
    one, other = sorted(
        planfile.runs(path), key=lambda run: json.loads(run.spec)["partition"]["params"]["alpha"]
    )
    assert one.pack == other.pack
    done(fedshift(project, "train-pack", "--plan", str(path), "--pack", one.pack))
    assert "no draw of" in capfd.readouterr().err
    assert (project / other.directory / "summary.json").is_file()
    failure = json.loads((project / one.directory / "failure.json").read_text())
    assert "no draw of" in failure["text"] and not failure["retry"]
