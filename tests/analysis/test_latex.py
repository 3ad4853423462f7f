"""Tables for papers: emphasis, seeds, printed values and verdicts, in each format."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fedshift.analysis import latex
from fedshift.analysis.collected import ARCHIVE, Collected
from fedshift.analysis.verdicts import WORDS
from fedshift.cli import main
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from tests.analysis.conftest import REFERENCE, Project, accuracy

ROOT = REFERENCE.parent
TARGETS = {"t": {"columns": ["d", "metric", "target"]}}


def two_methods(project: Project) -> Collected:
    project.declare(
        methods={"fedavg": None, "fed_b&n": {"method": {"name": "fedbn"}}},
        axes={"target": ["a"], "seed": [0, 1]},
        tables={"t": {"title": "50% of {all}", "metrics": ["ood"]}},
    )
    for method, values in (("fedavg", (0.5, 0.6)), ("fed_b&n", (0.7, 0.9))):
        for seed, value in enumerate(values):
            project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, target="a", seed=seed)
    return project.collect()


def written(project: Project, collected: Collected, printed: bool = False) -> str:
    (path,) = latex.write(project.workspace, collected, project.workspace.root / "out", printed)
    return path.read_text()


def test_latex_is_escaped_and_emphasised(project: Project) -> None:
    text = written(project, two_methods(project))
    assert r"\caption{50\% of \{all\}. A toy}" in text
    assert r"fed\_b\&n & \textbf{\num{80.0 +- 14.1}} \\" in text
    assert r"fedavg & \underline{\num{55.0 +- 7.1}} \\" in text
    assert "over 2 seeds" in text


def test_each_block_of_latex_is_a_table(project: Project) -> None:
    """As hFedF's Tables 11 to 13: one table of three blocks would be cut at the end of the page."""
    text = written(project, paper(project, "hfedf/table2", only={}, tables=TARGETS))
    assert text.count(r"\begin{table}") == 3 and text.count("best bold") == 1
    assert ": d = 2}" in text


def test_unusual_seeds_and_archived_runs_are_marked(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None},
        axes={"target": ["a", "b"], "seed": [0, 1]},
        tables={"t": {"metrics": ["ood"], "columns": ["target"]}},
    )
    for method in ("fedavg", "fedbn"):
        for target in ("a", "b"):
            for seed in (0, 1):
                missing = (method, target, seed) == ("fedbn", "b", 1)
                value = None if missing else {1: accuracy((0.5, 0.5), ood=0.5 + 0.1 * seed)}
                project.add(method, value, target=target, seed=seed)
    collected = project.collect()
    collected.runs.loc[
        (collected.runs["target"] == "a") & (collected.runs["state"] == "finished"), "source"
    ] = ARCHIVE
    (fedbn,) = [line for line in written(project, collected).splitlines() if line.startswith("fedbn")]
    assert r"\textbf{\num{55.0 +- 7.1}}\S{} & \num{50.0} (n = 1 of 2)" in fedbn
    assert r"\S{} From the archive" in written(project, collected)


def paper(project: Project, name: str, **changes: Any) -> Collected:
    """An experiment of ours with drawn accuracies."""
    declared = load(Workspace(ROOT), name).model_dump(
        exclude_unset=True, exclude={"name", "claims", "figures"}
    )
    project.declare(name, **{**declared, **changes})
    rng = np.random.default_rng(0)
    for cell in expand(project.workspace, load(project.workspace, name)):
        values = {1: accuracy((0.6, 0.6), ood=round(float(rng.uniform(0.4, 0.8)), 3))}
        project.add(cell.label, values, spec=cell.spec, **cell.axes)
    return project.collect()


def test_printed_values_and_verdicts_stand_below_ours(project: Project) -> None:
    text = written(project, paper(project, "stablefdg/table10"), printed=True)
    lines = [line for line in text.splitlines() if line.startswith("~~verdict")]
    assert lines and all(any(word in line for word in WORDS) for line in lines)


def test_of_several_rounds_the_protocols_has_the_verdict(project: Project) -> None:
    tables = load(Workspace(ROOT), "stablefdg/table10").model_dump(exclude_unset=True)["tables"]
    tables["table10"]["select"] = ["last", "last_third"]
    text = written(project, paper(project, "stablefdg/table10", tables=tables), printed=True)
    lines = [line for line in text.splitlines() if line.startswith("~~verdict")]
    cells = [[cell.strip(" \\") for cell in line.split("&")[1:]] for line in lines]
    assert cells and all(last in WORDS and not last_third for last, last_third in cells)


def test_a_table_of_settings_has_neither_seeds_nor_a_best(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None},
        axes={"seed": [0]},
        tables={"t": {"metrics": ["setting.local.lr"]}},
        train=False,
    )
    for method in ("fedavg", "fedbn"):
        project.add(method, None, seed=0)
    text = written(project, project.collect())
    assert r"fedavg & \num{0.2}" in text and "textbf" not in text and "seed" not in text


@pytest.mark.parametrize("name", ["fdse/table1_office", "hfedf/table2"])
def test_tables_of_the_papers_compile(name: str, project: Project) -> None:
    if (program := shutil.which("pdflatex")) is None:
        pytest.skip("no pdflatex (Debian: texlive-latex-recommended texlive-science lmodern)")
    changes = {"axes": {**load(Workspace(ROOT), name).model_dump(exclude_unset=True)["axes"], "seed": [0, 1]}}
    out = project.workspace.root / "out"
    paths = latex.write(project.workspace, paper(project, name, **changes), out, True)
    packages = r"\usepackage{booktabs,graphicx,siunitx}\sisetup{separate-uncertainty=true}"
    body = "".join(path.read_text() for path in paths)
    (out / "all.tex").write_text(
        rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}{packages}\begin{{document}}{body}\end{{document}}"
    )
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_command_writes_every_table(tmp_path: Path) -> None:
    """The archived experiment, as in a fresh clone."""
    command = ["--root", str(ROOT), "export", "hfedf/precision_photo", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert [path.name for path in tmp_path.iterdir()] == ["precision.tex"]
