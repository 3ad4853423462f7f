"""Results that pages show: tables and figures of an experiment, kept in docs/results with where they come from.

`python docs/generate --keep demo` copies them from results/ and notes commit, machine and digests; between the lines
`<!-- results: demo/summary -->` and `<!-- end -->` a page then holds that table, and `make docs` writes it there anew.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fedshift.analysis.collected import ARCHIVE, beside
from fedshift.analysis.page import piped
from fedshift.archive import listing, store
from fedshift.archive.file import Archived
from fedshift.common.files import sha256
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get
from fedshift.common.version import commit
from fedshift.experiments.load import load
from fedshift.experiments.validate import figures
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "results"
BLOCK = re.compile(r"(<!-- results: ([\w/]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: Path) -> str:
    """The text of a page whose blocks hold the kept tables, each with the commit and the machine that made it."""
    return BLOCK.sub(lambda block: f"{block[1]}{_with_source(block[2])}\n{block[3]}", page.read_text())


def _with_source(name: str) -> str:
    source = json.loads((KEPT / Path(name).parent / "source.json").read_text())
    lines = (KEPT / f"{name}.md").read_text().splitlines()
    table = "\n".join(line for line in lines if line.startswith("|"))
    return f"Made by `{source['commit']}` on {source['machine']} (`{source['command']}`):\n\n{table}\n"


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
    sources = {path.parent.relative_to(KEPT).as_posix(): path for path in sorted(KEPT.glob("**/source.json"))}
    made = ((name, json.loads(path.read_text())["command"]) for name, path in sources.items())
    return [name for name, command in made if command == f"fedshift table {name}"]


def make(experiment: str) -> None:
    """Write the tables and figures of an experiment below results/ again, and its ranking where that is kept."""
    verbs = ["table", "figure", *["rank"] * (KEPT / experiment / "ranks.md").exists()]
    for verb in verbs:
        subprocess.run(
            [sys.executable, "-m", "fedshift", "--root", str(ROOT), verb, experiment],
            stdout=subprocess.DEVNULL,
            check=verb == "table",
        )


def keep(experiment: str) -> None:
    """Copy the tables and figures of an experiment from results/ to docs/results/<experiment>, with where they come from."""
    tables, drawn = (ROOT / "results" / kind / experiment for kind in ("tables", "figures"))
    listed = [drawn / f"{name}.png" for name in figures(load(Workspace(ROOT), experiment))]
    folder = KEPT / experiment
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in [*tables.glob("*.md"), *tables.glob("*.csv"), *filter(Path.exists, listed)]:
        shutil.copy(path, folder)
    for dataset, picture in _domains(experiment).items():
        shutil.copy(picture, folder / f"{dataset}.png")
    if archived := _archived(experiment):
        lines = [listing.COLUMNS, *listing.rows(archived)]
        text = piped(lines, ["---", *["---:"] * (len(listing.COLUMNS) - 1)])
        (folder / "runs.md").write_text(f"# Archived runs of {experiment}\n\n{text}\n")
    made_by, _, differs = commit(ROOT).partition(" ")
    source = {
        "commit": made_by[:7] + " with changes" * bool(differs),
        "machine": f"{os.cpu_count()} threads of {_processor()}",
        "command": _command(experiment),
        "files": {path.name: sha256(path.read_bytes()) for path in sorted(folder.iterdir())},
    }
    (folder / "source.json").write_text(json.dumps(source, indent=1) + "\n")


def _archived(experiment: str) -> list[Archived]:
    """The archived runs that its tables were made from."""
    table = read_parquet(beside(Workspace(ROOT).metrics(experiment), "runs"), columns=["digest", "source"])
    digests = {row["digest"] for row in table.to_pylist() if row["source"] == ARCHIVE}
    return [one for one in store.files(Workspace(ROOT)) if one.digest in digests]


def _command(experiment: str) -> str:
    """What made the tables: from the archive alone where nothing was trained here."""
    if experiment == "demo":
        return "make demo"
    table = read_parquet(beside(Workspace(ROOT).metrics(experiment), "runs"), columns=["state", "source"])
    sources = {row["source"] for row in table.to_pylist() if row["state"] == "finished"}
    return f"fedshift table {experiment}" if sources == {ARCHIVE} else f"fedshift run {experiment}"


def _domains(experiment: str) -> dict[str, Path]:
    """Data set -> the picture of its domains that lies beside the images of the experiment's runs. Embedded data sets alone: the images of
    others may not be passed on.
    """
    workspace = Workspace(ROOT)
    runs = read_parquet(beside(workspace.metrics(experiment), "runs"), columns=["spec"])["spec"].to_pylist()
    sources = [RunSpec.model_validate_json(spec).data for spec in runs]
    pictures = {data.dataset: workspace.prepared(data.prepared_name).with_suffix(".png") for data in sources}
    embedded = {name: picture for name, picture in pictures.items() if get("datasets", name).embedded}
    return {name: picture for name, picture in embedded.items() if picture.exists()}


def _processor() -> str:
    """The processor's name with what decides its arithmetic."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", info)
    flags = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in info]
    return f"{name[1].strip() if name else platform.processor()} ({', '.join(flags)})"
