"""What is archived: a row for each run, with who trained it and what it took."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow.compute as pc

from fedshift.archive.file import METRICS, Archived
from fedshift.common.parquet import read_parquet
from fedshift.storage.rundir import rounds_trained

COLUMNS = ("run", "rounds", "px", "precision", "digest", "commit", "finished", "machine", "hours", "kB")


def rows(archived: Iterable[Archived]) -> list[tuple[str, ...]]:
    """COLUMNS of each run in their order, then the sum.

    rounds: trained. finished: the day, in UTC. commit: of the project whose code trained it, `+` where files
        differed from it, `-` where it was no clone. hours: of training (of earlier versions without
        evaluation), times the cores that the run had (core-hours), or of the accelerator.
    """
    lines, total, size = [], 0.0, 0.0
    for one in archived:
        summary, hours, kilobytes = one.summary, _hours(one), len(one.data) / 1e3
        spec, commit = summary["spec"], summary["environment"].get("commit") or "-"
        day = datetime.fromtimestamp(one.index.finished, UTC).date().isoformat()
        trained = one.index.run.rpartition("/")[0], str(rounds_trained(summary))
        declared = str(spec["data"]["input_px"]), spec["local"]["precision"], one.digest
        made = commit[:7] + "+" * (" " in commit), day, str(one.machine)
        lines.append((*trained, *declared, *made, f"{hours:.2f}", f"{kilobytes:.0f}"))
        total, size = total + hours, size + kilobytes
    return [*lines, (f"{len(lines)} runs", *[""] * (len(COLUMNS) - 3), f"{total:.1f}", f"{size:.0f}")]


def _hours(one: Archived) -> float:
    """By the summary; of earlier versions by the records of rounds: before `seconds` was in checkpoints it
    was of the last process alone.
    """
    records = read_parquet(one.content[METRICS], filters=pc.field("metric") == "seconds")
    of_rounds = pc.sum(records["value"]).as_py() or 0
    hours = float(one.summary["costs"]["seconds"] if "finished" in one.summary else of_rounds) / 3600
    return hours * one.machine.threads if one.machine.device == "cpu" else hours
