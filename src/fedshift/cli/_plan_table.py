"""What `fedshift plan` says of a plan: a line for each experiment, or JSON, and what to know about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from fedshift.analysis import uneven
from fedshift.archive.store import archived
from fedshift.cli._options import echo_json
from fedshift.experiments.load import load
from fedshift.experiments.tuning import trials, unequal
from fedshift.planning import job, planfile
from fedshift.planning.costs import counts, speed
from fedshift.planning.lacking import lacking, messages
from fedshift.planning.planfile import COSTS, Run
from fedshift.planning.request import Request
from fedshift.planning.settle import changed, warnings
from fedshift.spec import RunSpec
from fedshift.storage.rundir import State
from fedshift.storage.workspace import TUNING, Workspace


def _rows(path: Path, request: Request) -> list[tuple[str, list[Run]]]:
    """A line for each experiment, and one for all, with the runs that it counts."""
    rows = [(name, planfile.runs(path, experiments=(name,))) for name in request.experiments]
    return rows if len(rows) == 1 else [*rows, ("all, each run once", planfile.runs(path))]


def _facts(workspace: Workspace, path: Path, request: Request, guesses: Guesses) -> list[dict[str, Any]]:
    """What is planned and left to do, as numbers: of each experiment, then of all."""
    left, lost = ({run.digest for run in runs} for runs in _unfinished(workspace, planfile.runs(path)))
    facts = []
    for name, runs in _rows(path, request):
        todo = [run for run in runs if run.digest in left]
        failures = sum(run.digest in lost for run in runs)
        facts.append(
            {
                "experiment": name,
                "runs": len(runs),
                "done": len(runs) - len(todo) - failures,
                "failed": failures,
                "packs": len({run.pack for run in todo}),
                "images": sum(run.images for run in todo),
                "hours": sum(run.minutes for run in todo) / 60,
                "disk_mb": job.disk_mb(todo, request.parallel),
                "guessed": guesses.of(todo),
            }
        )
    return facts


def show(workspace: Workspace, path: Path, request: Request, as_json: bool) -> None:
    """Print what is planned and left to do, a line for each experiment, then what to know about it."""
    every = planfile.runs(path)
    guesses = Guesses(workspace, every, request.device)
    facts = _facts(workspace, path, request, guesses)
    left, failed = _unfinished(workspace, every)
    notes = [*_notes(workspace, path, request, left), *guesses.lines()]
    if failed:
        what = f"Failed, and not trained again: {len(failed)} runs. Reasons: fedshift status."
        notes.insert(0, f"{what} Once they are fixed: fedshift plan --retry-failed.")
    if as_json:
        echo_json({"plan": str(path), "device": request.device, "experiments": facts, "notes": notes})
        return
    width = max(len(row["experiment"]) for row in facts)
    click.echo(
        f"{'experiment':{width}} {'runs':>6} {'done':>6} {'packs':>6} {'images':>9} {'hours':>9} {'disk':>9}"
    )
    for row in facts:
        images = f"{row['images'] / 1e6:.1f} M"
        hours = f"{'~' if row['guessed'] else ''}{row['hours']:.1f}"
        disk = f"{row['disk_mb'] / 1e3:.1f} GB"
        click.echo(
            f"{row['experiment']:{width}} {row['runs']:6} {row['done']:6} {row['packs']:6} {images:>9} "
            f"{hours:>9} {disk:>9}"
        )
    click.echo(
        f"Packs, images, hours and disk (one {request.device} worker) are of what is still to do. "
        f"Plan: {path}"
    )
    for line in notes:
        click.echo(line)


def _notes(workspace: Workspace, path: Path, request: Request, left: list[Run]) -> Iterator[str]:
    """What to know about a plan; left: what is not finished."""
    yield from warnings(changed(workspace, planfile.runs(path)))
    if count := archived(workspace, [run.directory for run in left]):
        yield f"Archived, of what is still to do: {count} runs (`fedshift table` shows them)."
    yield from _budgets(workspace, request)
    yield from _lacking(workspace, left)
    yield from _long(left, request)
    yield from _slow_bf16(left, request)
    yield from _uneven(workspace, path, request)


def _budgets(workspace: Workspace, request: Request) -> Iterator[str]:
    """Lines on searches in which rows have different budgets."""
    for name in request.experiments:
        if name.endswith(TUNING):
            counts = unequal(trials(workspace, load(workspace, name.removesuffix(TUNING))))
            rows = ", ".join(f"{row} {count}" for row, count in counts.items())
            if counts:
                yield f"{name}: rows are tuned with different budgets (points): {rows}."


def _uneven(workspace: Workspace, path: Path, request: Request) -> Iterator[str]:
    """Lines on table means that are not over the same values for every method."""
    for name in request.experiments:
        cells = planfile.cells(path, name)
        values = [{"method": use.label, **json.loads(use.axes)} for use in cells]
        yield from uneven.warnings(load(workspace, name), values)


def _unfinished(workspace: Workspace, runs: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """The runs that are left to train, and those that failed for good."""
    left: list[Run] = []
    failed: list[Run] = []
    for run in runs:
        directory = workspace.run_at(run.directory)
        if directory.outcome() is not State.FINISHED:
            (failed if directory.failed_for_good else left).append(run)
    return left, failed


def _lacking(workspace: Workspace, todo: Iterable[Run]) -> list[str]:
    return messages(lacking(workspace, [RunSpec.model_validate_json(run.spec) for run in todo]))


def _long(todo: Iterable[Run], request: Request) -> Iterator[str]:
    """A line on runs that may outlast a job."""
    if longer := [run for run in todo if job.longer([run], request.parallel, request.hours)]:
        longest = max(longer, key=lambda run: run.minutes)
        yield (
            f"{len(longer)} runs may outlast a job of {request.hours} hours (params.yaml: hours) and rely on "
            f"their checkpoints: "
            f"the next attempt goes on. The longest: {longest.minutes / 60:.0f} hours, {longest.directory}"
        )


def _slow_bf16(todo: Iterable[Run], request: Request) -> Iterator[str]:
    """A line on runs in bf16, where the CPU has no instructions for it."""
    import torch

    from fedshift.federation.precision import has_bf16

    if has_bf16(torch.device(request.device)):
        return
    if count := sum(RunSpec.model_validate_json(run.spec).local.precision == "bf16" for run in todo):
        yield (
            f"{count} runs are in bf16, for which this CPU has no instructions: they take longer than in "
            f"fp32 (docs/runs.md, Precision)."
        )


class Guesses:
    """What the estimates of a plan's runs are reckoned from where it was not measured or counted: marked `~`
    in the table.
    """

    def __init__(self, workspace: Workspace, runs: Iterable[Run], device: str) -> None:
        self.device = device
        self._speeds: dict[str, str] = {}  # digest -> network and the source of its speed
        self._uncounted: dict[str, str] = {}
        for run in runs:
            spec = RunSpec.model_validate_json(run.spec)
            counted = counts(workspace, spec.data.dataset, spec.data.release)
            estimate = speed(workspace, spec, device)
            if not estimate.measured:
                network = f"{spec.model.name} at {spec.data.input_px} px in {spec.local.precision}"
                self._speeds[run.digest] = f"{network} (from {estimate.source})"
            if not counted.source:
                name, release = spec.data.dataset, spec.data.release
                self._uncounted[run.digest] = (
                    f"{name} {release}, a guess. Run: fedshift fetch {name} --release {release}"
                )

    def of(self, runs: Iterable[Run]) -> bool:
        """Whether the estimate of one of the runs is a guess."""
        return any(run.digest in self._speeds or run.digest in self._uncounted for run in runs)

    def lines(self) -> Iterator[str]:
        for network in sorted({*self._speeds.values()}):
            yield f"~ Not measured on {self.device}, estimated: {network}. Add a line to {COSTS}."
        for source in sorted({*self._uncounted.values()}):
            yield f"~ Nobody has counted the images of {source}"
