"""Tables for papers: emphasis, seeds, printed values and verdicts, in each format."""

import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedshift.analysis import latex, page
from fedshift.analysis.collected import ARCHIVE, Collected
from fedshift.analysis.verdicts import WORDS
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from tests.verbs import done, fedshift

from .conftest import REFERENCE, Project, accuracy

ROOT = REFERENCE.parent


def written(project: Project, collected: Collected, printed: bool = False) -> str:
    (path,) = latex.write(project.workspace, collected, project.workspace.root / "out", printed)
    return path.read_text()


def test_latex_is_escaped_and_emphasised(project: Project) -> None:
    oods = {("fedavg", "a"): (0.5, 0.6), ("fed_b&n", "a"): (0.7, 0.9)}
    values = {(*place, seed): value for place, of in oods.items() for seed, value in enumerate(of)}
    collected = project.trained(
        values,
        methods={"fedavg": None, "fed_b&n": {"method": {"name": "fedbn"}}},
        tables={"t": {"title": "50% of {all}", "metrics": ["ood"]}},
    )
    text = written(project, collected)
    assert r"\caption{50\% of \{all\}. A toy}" in text and "over 2 seeds" in text
    assert r"fed\_b\&n & \textbf{\num{80.0 +- 14.1}} \\" in text
    assert r"fedavg & \underline{\num{55.0 +- 7.1}} \\" in text


def test_unusual_seeds_and_archived_runs_are_marked(project: Project) -> None:
    places = itertools.product(("fedavg", "fedbn"), "ab", (0, 1))
    values = {place: 0.5 + 0.1 * place[-1] if place != ("fedbn", "b", 1) else None for place in places}
    collected = project.trained(values, tables={"t": {"metrics": ["ood"], "columns": ["target"]}})
    archived = (collected.runs["target"] == "a") & (collected.runs["state"] == "finished")
    collected.runs.loc[archived, "source"] = ARCHIVE
    text = written(project, collected)
    (fedbn,) = [line for line in text.splitlines() if line.startswith("fedbn")]
    assert r"\textbf{\num{55.0 +- 7.1}}\S{} & \num{50.0} (n = 1 of 2)" in fedbn
    assert r"\S{} From the archive" in text


def paper(project: Project, name: str, **changes: Any) -> Collected:
    """An experiment of ours with drawn accuracies."""
    left_out = {"name", "claims", "figures"}
    declared = load(Workspace(ROOT), name).model_dump(exclude_unset=True, exclude=left_out)
    project.declare(name, **{**declared, **changes})
    rng = np.random.default_rng(0)
    for cell in expand(project.workspace, load(project.workspace, name)):
        values = {1: accuracy((0.6, 0.6), ood=round(float(rng.uniform(0.4, 0.8)), 3))}
        project.add(cell.label, values, spec=cell.spec, **cell.axes)
    return project.collect()


def test_each_block_of_latex_is_a_table(project: Project) -> None:
    """As hFedF's Tables 11 to 13: one table of three blocks would be cut at the end of the page."""
    declared = {"t": {"columns": ["d", "metric", "target"]}}
    text = written(project, paper(project, "hfedf/table2", only={}, tables=declared))
    assert text.count(r"\begin{table}") == 3 and text.count("best bold") == 1
    assert ": d = 2}" in text


def test_verdicts_stand_below_ours_of_several_rounds_the_protocols(project: Project) -> None:
    tables = load(Workspace(ROOT), "stablefdg/table10").model_dump(exclude_unset=True)["tables"]
    tables["table10"]["select"] = ["last", "last_third"]
    text = written(project, paper(project, "stablefdg/table10", tables=tables), printed=True)
    lines = [line for line in text.splitlines() if line.startswith("~~verdict")]
    cells = [[cell.strip(" \\") for cell in line.split("&")[1:]] for line in lines]
    assert cells and all(last in WORDS and not last_third for last, last_third in cells)


def test_a_table_of_settings_has_neither_seeds_nor_a_best(project: Project) -> None:
    rows, table = {"fedavg": None, "fedbn": None}, {"metrics": ["setting.local.lr"]}
    project.declare(methods=rows, axes={"seed": [0]}, tables={"t": table}, train=False)
    for method in rows:
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
    head = rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}{packages}"
    body = "".join(path.read_text() for path in paths)
    (out / "all.tex").write_text(rf"{head}\begin{{document}}{body}\end{{document}}")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_command_writes_every_table(tmp_path: Path) -> None:
    """The archived experiment, as in a fresh clone."""
    done(fedshift(ROOT, "table", "hfedf/precision_photo", "--latex", "--out", str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["precision.tex"]


@pytest.mark.parametrize(
    ("metric", "means", "others", "ranks"),
    [
        ("ood", (1.0, 3.0, 2.0, 0.5), {}, [0, 1, 2, 0]),
        ("loss.ood", (1.0, 3.0, 2.0, 0.5), {}, [2, 0, 0, 1]),  # the lowest is best
        ("std", (1.0, 3.0, 2.0, 0.5), {}, [2, 0, 0, 1]),  # clients that are alike
        ("ood", (2.0, 2.0 + 1e-12, 1.0, 0.0), {}, [1, 1, 2, 0]),
        # the largest gain of the full method over an ablation is that of the worst ablation
        ("gain.id", (0.9, 0.1, 1.3), {}, [0, 0, 0]),
        ("ratio.id", (0.9, 1.0), {}, [0, 0]),
        # over fewer seeds than planned, or over fewer values than its neighbours', a mean is another quantity
        ("ood", (3.0, 2.0, 1.0), {"seeds": [2, 3, 3]}, [0, 1, 2]),
        ("ood", (3.0, 2.0, 1.0), {"seeds": [0, 2, 3]}, [0, 0, 0]),  # one alone is no comparison
        ("ood", (3.0, 2.0, 1.0), {"fewer": "epochs 2 of 1, 2"}, [0, 0, 0]),
    ],
)
def test_which_rows_of_a_column_are_best_and_second(
    metric: str, means: tuple[float, ...], others: dict[str, Any], ranks: list[int]
) -> None:
    names = [*"abcd"[: len(means)]]
    column = pd.DataFrame(
        {"method": names, "metric": metric, "mean": means, "seeds": 3, "planned": 3, "fewer": ""}
    )
    column = column.assign(**others)
    beside = column.assign(metric="avg", mean=range(len(means)), seeds=3, fewer="")  # ranked by itself
    found = page.ranks(pd.concat([column, beside], ignore_index=True))
    assert found[: len(means)].tolist() == ranks
