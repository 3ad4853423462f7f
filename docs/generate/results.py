"""Results that pages show: tables and figures of an experiment, saved in docs/results with their source.

`python docs/generate --keep demo` copies them from results/ and writes commit, machine and hashes to source.json;
the block `<!-- results: demo/summary -->` of a page then contains that table.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from fedshift.analysis.collected import ARCHIVE, beside
from fedshift.archive import store
from fedshift.common.files import sha256
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get
from fedshift.common.version import commit
from fedshift.experiments.load import load
from fedshift.experiments.validate import figures
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
WORKSPACE = Workspace(ROOT)
KEPT = ROOT / "docs" / "results"


def kept(name: str, folder: str) -> str:
    """A kept table, with a link to where it comes from. folder: docs/results, as the page has it."""
    experiment, _, table = name.rpartition("/")
    title = load(WORKSPACE, experiment).tables[table].title
    section = (KEPT / experiment / "table.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    source = json.loads((KEPT / experiment / "source.json").read_text())
    return "\n".join([*lines, "", f"`{source['command']}` ([source]({folder}/{experiment}/source.json))"])


def stale() -> list[str]:
    """Kept files that are not what was kept: their digest is not the noted one."""
    return [
        (folder.parent / name).relative_to(ROOT).as_posix()
        for folder in KEPT.glob("**/source.json")
        for name, digest in json.loads(folder.read_text())["files"].items()
        if sha256((folder.parent / name).read_bytes()) != digest
    ]


def of_the_archive() -> list[str]:
    """The kept experiments whose tables the archive alone made."""
    made = {path: json.loads(path.read_text())["command"] for path in sorted(KEPT.glob("**/source.json"))}
    names = {path.parent.relative_to(KEPT).as_posix(): command for path, command in made.items()}
    return [name for name, command in names.items() if command == f"fedshift table {name}"]


def make(experiment: str) -> None:
    """Write the tables and figures of an experiment below results/ again, and its ranking where that is kept."""
    verbs = ["table", "figure", *["rank"] * (KEPT / experiment / "ranks.csv").exists()]
    for verb in verbs:
        subprocess.run(
            [sys.executable, "-m", "fedshift", "--root", str(ROOT), verb, experiment],
            stdout=subprocess.DEVNULL,
            check=verb == "table",
        )


def keep(experiment: str) -> None:
    """Copy the tables and figures of an experiment from results/ to docs/results/<experiment>, with where they come from."""
    tables, drawn = (ROOT / "results" / kind / experiment for kind in ("tables", "figures"))
    listed = [drawn / f"{name}.png" for name in figures(load(WORKSPACE, experiment))]
    folder = KEPT / f"{experiment}.new"  # takes the place of the earlier one when it is complete
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in [*tables.glob("table.md"), *tables.glob("*.csv"), *filter(Path.exists, listed)]:
        shutil.copy(path, folder)
    columns = ["digest", "source", "state", "spec"]
    runs = read_parquet(beside(WORKSPACE.metrics(experiment), "runs"), columns=columns).to_pylist()
    for dataset, picture in _domains(runs).items():
        shutil.copy(picture, folder / f"{dataset}.png")
    digests = {run["digest"] for run in runs if run["source"] == ARCHIVE}
    if archived := [one for one in store.files(WORKSPACE) if one.digest in digests]:
        with (folder / "runs.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([store.COLUMNS, *store.listed(archived)])
    made_by, _, differs = commit(ROOT).partition(" ")
    source = {
        "commit": made_by[:7] + " with changes" * bool(differs),
        "machine": f"{os.cpu_count()} threads of {_processor()}",
        "command": _command(experiment, runs),
        "files": {path.name: sha256(path.read_bytes()) for path in sorted(folder.iterdir())},
    }
    (folder / "source.json").write_text(json.dumps(source, indent=1) + "\n")
    shutil.rmtree(KEPT / experiment, ignore_errors=True)
    folder.rename(KEPT / experiment)


def _command(experiment: str, runs: list[dict[str, Any]]) -> str:
    """What made the tables: from the archive alone where nothing was trained here."""
    if experiment == "demo":
        return "make demo"
    alone = {run["source"] for run in runs if run["state"] == "finished"} == {ARCHIVE}
    return f"fedshift {'table' if alone else 'run'} {experiment}"


def _domains(runs: list[dict[str, Any]]) -> dict[str, Path]:
    """Data set -> the picture of its domains that lies beside the images of the experiment's runs. Embedded data sets alone: the images of
    others may not be passed on.
    """
    sources = [RunSpec.model_validate_json(run["spec"]).data for run in runs]
    embedded = [data for data in sources if get("datasets", data.dataset).embedded]
    pictures = {data.dataset: WORKSPACE.prepared(data.prepared_name).with_suffix(".png") for data in embedded}
    return {name: picture for name, picture in pictures.items() if picture.exists()}


def _processor() -> str:
    """The processor's name with what decides its arithmetic."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", info)
    flags = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in info]
    return f"{name[1].strip() if name else platform.processor()} ({', '.join(flags)})"
