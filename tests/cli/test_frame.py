"""The frame of the command line: quick, lazy, and clear about mistakes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fedshift import cli
from fedshift.cli import VERBS, main
from fedshift.cli.run import snakemake
from fedshift.storage.workspace import Workspace
from tests.data.conftest import plant
from tests.verbs import fedshift, refused

pytestmark = pytest.mark.slow

CLI = Path(cli.__file__).parent


def test_every_verb_is_a_command_and_every_module_has_a_verb() -> None:
    commands = [main.get_command(click.Context(main), verb) for verb in VERBS]
    modules = {command.callback.__module__ for command in commands if command and command.callback}
    assert modules == {f"fedshift.cli.{path.stem}" for path in CLI.glob("[!_]*.py")}
    assert main.list_commands(click.Context(main)) == [*VERBS]  # once the module `list` hides the function
    assert "Set-up" in fedshift(CLI, "--help").output


def modules(code: str) -> tuple[str, set[str]]:
    """What `code` prints, and the modules that are loaded then."""
    program = ["-c", f"import sys; {code}; print('LOADED', *sys.modules)"]
    output = subprocess.run([sys.executable, *program], text=True, capture_output=True, check=True).stdout
    printed, _, loaded = output.partition("LOADED")
    return printed, {*loaded.split()}


def test_help_names_the_verbs_in_order_without_importing_them() -> None:
    printed, loaded = modules("from fedshift.cli import main; main(['--help'], standalone_mode=False)")
    lines = printed.partition("Train:")[2].splitlines()
    named = [line.replace(",", "").split() for line in lines if line.startswith("  ") and line[2] != " "]
    assert [*(words[0] for words in named[:-2]), *named[-2], *named[-1]] == list(VERBS)
    heavy = {"torch", "numpy", "pandas", "pyarrow", "pydantic", "yaml", "snakemake", "mlflow"}
    assert not loaded & {*heavy, "fedshift.cli.plan"}


def test_no_verb_loads_torch_before_it_is_called() -> None:
    """It takes 446 MB and a second of CPU, more than the rest of them."""
    places = ", ".join(f"fedshift.cli.{path.stem}" for path in CLI.glob("[!_]*.py"))
    assert "torch" not in modules(f"import {places}")[1]
    printed, loaded = modules("from fedshift.cli import main; main(['list'], standalone_mode=False)")
    assert "fedavg" in printed and "torch" not in loaded


def test_a_folder_that_is_no_checkout_is_named(tmp_path: Path) -> None:
    for verb in (["doctor"], ["plan", "demo"], ["train", "fedavg", "--data", "digits"]):
        refused(fedshift(tmp_path, *verb), f"error: {tmp_path} is not a checkout of fedshift: cd to one")


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
    for words in (["fetch", "--from", str(tree)], ["verify"]):
        command_ = [*command, *words, "folder", "--release", "mine"]
        done = subprocess.run(command_, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    facts = json.loads(Workspace(project).raw("folder", "mine").with_name("mine.verified.json").read_text())
    assert facts["counts"] == {name: {"x": 2, "עברית": 2} for name in ("データ", "ümlaut 🦊")}


def test_a_project_is_found_from_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = project / "experiments" / "fdse"
    monkeypatch.chdir(below)
    result = CliRunner().invoke(main, ["plan", "demo", "--print", "path"])
    assert result.exit_code == 0, result.output
    assert (below / result.stdout.strip()).resolve().parent == project / "results" / "plan"
    assert result.stderr.startswith(f"project folder: {project}")
    monkeypatch.chdir(project)
    assert "project folder" not in CliRunner().invoke(main, ["plan", "demo", "--print", "path"]).stderr


@pytest.mark.parametrize(
    "words",
    [["--config", "pack=2"], ["--config=pack=2"], ["-C", "pack=2"], ["-Cpack=2"], ["-n", "-Cpack=2", "-q"]],
)
def test_a_config_that_is_handed_on_to_snakemake_keeps_the_experiment(words: list[str]) -> None:
    """Snakemake listens to the last `--config` alone."""
    given = snakemake("demo", "profiles/local", words)
    flag = max(place for place, word in enumerate(given) if word in ("--config", "-C"))
    assert given[flag + 1 : flag + 3] == ["experiments=[demo]", "pack=2"]
    assert given.count("experiments=[demo]") == 1
