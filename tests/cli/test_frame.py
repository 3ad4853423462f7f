"""The frame of the command line: quick, lazy, and clear about mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import fedshift
from fedshift.cli import VERBS, main
from fedshift.common import registry
from fedshift.storage.workspace import Workspace
from tests.data.conftest import plant

CLI = Path(fedshift.__file__).parent / "cli"


def test_every_verb_is_a_command_and_every_module_has_a_verb() -> None:
    commands = [main.get_command(click.Context(main), verb) for verb in VERBS]
    modules = {command.callback.__module__ for command in commands if command and command.callback}
    assert modules == {f"fedshift.cli.{path.stem}" for path in CLI.glob("[!_]*.py")}


def test_help_names_the_verbs_in_order_without_importing_them() -> None:
    code = "import sys; from fedshift.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    listed = [
        line.split()[0]
        for line in output.partition("Commands:")[2].splitlines()
        if line.startswith("  ") and line[2] != " "
    ]
    assert listed == list(VERBS)
    modules = output.split()
    assert not {"torch", "pandas", "pydantic", "fedshift.cli.plan"} & set(modules)


def test_verbs_that_show_results_do_not_load_torch() -> None:
    """It takes 446 MB and a second of CPU, more than the rest of them."""
    verbs = ", ".join(f"fedshift.cli.{module}" for module in ("collect", "results", "status", "track"))
    code = f"import sys, {verbs}; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert "fedshift.analysis.tables" in output.split() and "torch" not in output.split()


def test_no_verb_loads_torch_before_it_is_called() -> None:
    code = f"import sys, {', '.join(f'fedshift.cli.{path.stem}' for path in CLI.glob('[!_]*.py'))}; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert "torch" not in output.split()


def test_help_imports_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "pandas", "pyarrow", "pydantic", "yaml", "snakemake", "mlflow"}
    code = f"import sys; from fedshift.cli import main; main(['--help'], standalone_mode=False); print(sorted({heavy} & {{*sys.modules}}))"
    output = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"
    assert "train" in output


def test_list_leaves_torch_alone() -> None:
    code = "import sys; from fedshift.cli import main; main(['list'], standalone_mode=False); print('torch' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert output.splitlines()[-1] == "False"
    assert "fedavg" in output


def test_list_of_one_kind_shows_titles() -> None:
    output = CliRunner().invoke(main, ["list", "datasets"]).output
    titles = [line.split()[0] for line in output.splitlines() if not line.startswith("   ")]
    assert titles == ["datasets", *registry.names("datasets")] and "office_caltech10" in titles
    assert "scikit-learn" in output


def test_a_folder_that_is_no_checkout_is_named(tmp_path: Path) -> None:
    for verb in (["doctor"], ["plan", "demo"]):
        result = CliRunner().invoke(main, ["--root", str(tmp_path), *verb])
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: {tmp_path} is no checkout of fedshift: cd to one")


def test_misspelled_verb_names_the_nearest() -> None:
    result = CliRunner().invoke(main, ["tabel"])
    assert result.exit_code == 2
    assert "Did you mean 'table'?" in result.stderr


def test_mistake_of_the_user_is_one_message_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "demo.yaml").write_text("title: x\n")
    result = CliRunner().invoke(main, ["--root", str(tmp_path), "plan", "dmeo"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "Did you mean 'demo'?" in result.stderr
    assert "Traceback" not in result.output


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"fedshift, version {fedshift.__version__}\n"


def test_the_help_of_track_has_its_commands_on_lines_of_their_own() -> None:
    lines = CliRunner().invoke(main, ["track", "--help"]).output.splitlines()
    commands = [line.split("  ")[1] for line in lines if line.startswith(("  fedshift track", "  make ui"))]
    assert commands == ["fedshift track", "fedshift track --follow demo", "make ui"]


PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # file names are ASCII to Python


@pytest.mark.parametrize(
    "system",
    [PLAIN, PLAIN | {"PYTHONIOENCODING": "cp1252"}, {"PYTHONUTF8": "1", "PYTHONIOENCODING": "cp1252"}],
    ids=["locale", "locale and terminal", "terminal"],
)
def test_names_of_any_script_on_any_terminal(project: Path, tmp_path: Path, system: dict[str, str]) -> None:
    tree = plant(tmp_path / "tree", ["データ", "ümlaut 🦊"], ["עברית", "x"])
    command = [sys.executable, "-m", "fedshift", "--root", str(project)]
    environment = os.environ | system
    for words in (
        ["fetch", "folder", "--release", "mine", "--from", str(tree)],
        ["verify", "folder", "--release", "mine"],
    ):
        done = subprocess.run([*command, *words], env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    facts = json.loads(Workspace(project).raw("folder", "mine").with_name("mine.verified.json").read_text())
    assert facts["counts"] == {name: {"x": 2, "עברית": 2} for name in ("データ", "ümlaut 🦊")}


def test_a_project_is_found_from_below(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = project / "experiments" / "fdse"
    monkeypatch.chdir(below)
    result = CliRunner().invoke(main, ["plan", "demo", "--print", "path"])
    assert result.exit_code == 0, result.output
    assert (below / result.stdout.strip()).resolve().parent == project / "results" / "plan"
    assert result.stderr.startswith(f"project folder: {project}")
    monkeypatch.chdir(project)
    assert "project folder" not in CliRunner().invoke(main, ["plan", "demo", "--print", "path"]).stderr


def test_outside_of_any_project_that_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["run", "fedavg", "--data", "digits"])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path} is no checkout of fedshift: cd to one")
