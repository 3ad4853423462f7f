"""Where every run of a plan stands: finished, running, failed or missing."""

from __future__ import annotations

from pathlib import Path

from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from fedshift.training.claim import alive, holder

STATES = ("finished", "running", "failed", "missing")


def state(root: Path, run: Run) -> tuple[str, str]:
    """One of STATES, and the reason where the run failed, the writer where it is running, the code where another one finished it."""
    found, told = planfile.outcome(root, run)
    if found == "finished":
        return "finished", f"by other code; installed is {run.installed}" if run.of_other_code else ""
    claim = holder(root / run.directory / "claim.json")
    if claim and alive(claim):
        job = f", Slurm job {claim['job']}" if claim["job"] else ""
        return "running", f"{claim['host']}:{claim['pid']}{job}"
    if found == "failed":
        again = "a retry may help" if told["retry"] else "a retry does not help"
        return "failed", f"{told['kind']}: {told['text']} ({again})"
    return "missing", ""
