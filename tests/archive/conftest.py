"""A tiny experiment that was really trained, and its runs as archive files."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from fedshift.archive import file, store
from fedshift.archive.file import Archived
from fedshift.common.files import write_bytes, write_json
from fedshift.experiments.protocols import merge
from fedshift.planning import planfile
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.once import once
from tests.verbs import done, fedshift

TINY = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {"federation": {"rounds": 2}, "local": {"epochs": 1}},
    "methods": {"fedavg": None, "fedbn": None},
    "axes": {"target": ["plain"], "seed": [0]},
    "tables": {"main": {"columns": ["target"], "metrics": ["id", "ood", "ece.ood"]}},
}


@pytest.fixture(scope="session")
def trained(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose experiment `tiny` is trained; tests copy it."""

    def make(root: Path) -> None:
        shutil.copytree(ROOT / "reference", root / "reference")
        (root / "data").symlink_to(digits / "data")
        (root / "experiments").mkdir()
        (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump(TINY, sort_keys=False))
        plan = str(root / done(fedshift(root, "plan", "tiny", "--print", "path")).strip())
        done(fedshift(root, "partition", "--plan", plan))
        for pack in sorted({run.pack for run in planfile.runs(Path(plan))}):
            done(fedshift(root, "train-pack", "--plan", plan, "--pack", pack))
        for run in Workspace(root).runs():  # the same where files differ from the commit
            write_json(run.summary_file, merge(run.summary() or {}, {"environment": {"commit": "c0ffee1"}}))

    return once(tmp_path_factory, "archived", make)


@pytest.fixture
def here(trained: Path, tmp_path: Path) -> Workspace:
    """A copy of the trained project of the test's own."""
    root = tmp_path / "here"
    shutil.copytree(trained, root, symlinks=True)
    return Workspace(root)


@pytest.fixture
def archived(here: Workspace) -> Archived:
    """The run of fedbn, in the archive of `here`."""
    run = next(run for run in here.runs() if "fedbn" in run.path.parts)
    new, _ = store.add(here, run)
    assert new
    return new


def rewritten(old: Archived, content: dict[str, bytes] | None = None, **index: Any) -> Archived:
    """The file with other members, or another index, whose hashes are all right: who doctors it can do that."""
    fields = {**old.index.model_dump(), **index}
    parts = {**old.content, **(content or {})}
    kept = (fields[name] for name in ("run", "versions", "finished"))
    new = file.create(old.path.parent, *kept, parts, fields["left_out"])
    old.path.unlink(missing_ok=True)
    write_bytes(new.path, new.data)
    return new


def with_summary(old: Archived, change: Callable[[dict[str, Any]], object]) -> Archived:
    """The file with a changed summary."""
    summary = old.summary
    change(summary)
    return rewritten(old, {file.SUMMARY: json.dumps(summary).encode()})


def with_table(old: Archived, name: str, change: Callable[[pa.Table], pa.Table]) -> Archived:
    """The file with a changed table."""
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(old.content[name]))), sink)
    return rewritten(old, {name: sink.getvalue()})


def later(run: RunDirectory) -> None:
    """Make the run one that was finished a minute later."""
    summary = run.summary() or {}
    write_json(run.summary_file, {**summary, "finished": summary["finished"] + 60})


def of_earlier_version(old: Archived) -> Archived:
    """The file as versions wrote it that named a run `<digest>-<code>`, and whose records had times."""

    def timed(table: pa.Table) -> pa.Table:
        times = pa.array([old.index.finished] * len(table))
        return table.set_column(table.column_names.index("time"), "time", times)

    new = with_table(old, file.METRICS, timed)
    summary = {key: new.summary[key] for key in new.summary if key not in ("method_code", "finished")}
    content = {file.SUMMARY: json.dumps({**summary, "code": "0dd00001"}).encode()}
    return rewritten(new, content, run=f"{old.index.run}-0dd00001")
