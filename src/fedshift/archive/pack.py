"""From a finished run's directory to its archive file."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.archive import file
from fedshift.archive.file import METRICS, STATISTICS, SUMMARY, Archived
from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.spec import parse
from fedshift.storage.rundir import RunDirectory, Summary, rounds_trained
from fedshift.storage.workspace import Workspace

LARGE = 100_000  # bytes; docs/archive.md says what runs have


def pack(workspace: Workspace, run: RunDirectory) -> Archived:
    """The archive file of a finished run, which is not written yet.

    Summary and records go in byte for byte. So do statistics, diagnostics and each evaluation's result up to
    LARGE bytes; of larger statistics the rounds whose weights are kept, which are those that tables show.
    Raises FedshiftError where the run is not finished, or was declared by other versions than the installed
    ones.
    """
    if (summary := run.summary()) is None:
        raise FedshiftError(run.path, "is not finished", "Train it first; see: fedshift status --runs.")
    spec = parse(summary["spec"], str(run.summary_file))
    declared = spec.versions
    if spec.id_under(declared) != summary["digest"]:
        what = "was declared by other versions than the installed ones"
        raise FedshiftError(run.path, what, "Archive it with the code that trained it, or train it again.")
    content = {SUMMARY: run.summary_file.read_bytes(), METRICS: run.metrics.read_bytes()}
    left_out: dict[str, str] = {}
    if run.statistics.is_file():
        content[STATISTICS], left = _statistics(run, summary)
        left_out |= {STATISTICS: left} if left else {}
    small = [run.diagnostics] if run.diagnostics.is_file() else []
    for path in [*small, *sorted(run.evaluated.glob("*.parquet"))]:
        name = path.relative_to(run.path).as_posix()
        if (size := path.stat().st_size) <= LARGE:
            content[name] = path.read_bytes()
        else:
            left_out[name] = f"{size / 1e6:.1f} MB"
    name = f"{spec.place}/{run.name}"
    at = file.finished(summary, run.metrics)
    return file.create(workspace.archived(name), name, declared, at, content, left_out)


def _statistics(run: RunDirectory, summary: Summary) -> tuple[bytes, str]:
    """The statistics to be archived; and, where rounds are left out, which ones are in, as text."""
    data = run.statistics.read_bytes()
    if len(data) <= LARGE:
        return data, ""
    table = read_parquet(run.statistics)
    rounds = sorted({*summary["best_round"].values(), rounds_trained(summary)})
    part = table.filter(pc.is_in(table["round"], value_set=pa.array(rounds, pa.int32())))
    sink = io.BytesIO()
    pq.write_table(part.combine_chunks(), sink, compression="zstd")
    return sink.getvalue(), f"{len(data) / 1e6:.1f} MB; of rounds {', '.join(map(str, rounds))} alone"
