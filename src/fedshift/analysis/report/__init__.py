"""Report: tables, figures, partitions, costs and provenance of experiments, in one offline HTML file."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.analysis.claims import words as claim_words
from fedshift.analysis.claims.judge import verdicts as judge_claims
from fedshift.analysis.collection.collected import Collected, read
from fedshift.analysis.collection.records import batches as batches
from fedshift.analysis.figures.base import Axis, Plot, plots
from fedshift.analysis.figures.draw import svg
from fedshift.analysis.layout.footnotes import footnotes
from fedshift.analysis.layout.page import blocks, template
from fedshift.analysis.notes import notes
from fedshift.analysis.quantities.select import curves
from fedshift.analysis.report import downloads, facts
from fedshift.analysis.tables import judged
from fedshift.analysis.verdicts import judge
from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256_file, write_json, write_text
from fedshift.common.version import __version__, commit
from fedshift.storage.workspace import Workspace

COSTS = {"sent": "sent and received in a run (MB)", "seconds": "duration of a run (s)"}
INCH = 96  # pixels


def write(workspace: Workspace, names: Sequence[str], name: str) -> Path:
    """Write results/report/<name>/index.html, and two files for DVC next to it: scores.json (experiment ->
    method -> id, ood in percent, runs) and curves.csv (id and ood after each round).

    An experiment that was not collected is named as absent. Raises FedshiftError where none was.
    """
    present = [name for name in names if workspace.metrics(name).is_file()]
    if not present:
        raise FedshiftError(
            workspace.metrics(names[0]).parent,
            "no runs have been collected",
            f"Run `fedshift collect {names[0]}` first.",
        )
    collected = [read(workspace, name) for name in present]
    title = collected[0].experiment.title if len(names) == 1 else f"{len(names)} experiments"
    path, card = workspace.report(name) / "index.html", workspace.scorecard
    parts = [_part(workspace, results, path) for results in collected]
    html = template("report.html.j2").render(
        title=title,
        version=__version__,
        commit=commit(),
        scorecard=os.path.relpath(card, path.parent) if card.is_file() else "",
        parts=parts,
        absent=[name for name in names if name not in present],
        finished=_finished(collected),
    )
    write_text(path, html)
    write_json(
        path.with_name("scores.json"), {part["experiment"].name: _scores(part["costs"]) for part in parts}
    )
    write_text(path.with_name("curves.csv"), pd.concat(map(_curves, collected)).to_csv(index=False))
    return path


def _curves(collected: Collected) -> pd.DataFrame:
    """Columns panel (experiment and axes), method, round, id and ood (percent, mean over seeds)."""
    frame = curves(collected)
    axes = [frame[key] for key in collected.keys if key not in ("method", "seed")]
    places = zip([collected.experiment.name] * len(frame), *axes, strict=True)
    panel = [", ".join(str(part) for part in place if not pd.isna(part)) for place in places]
    by = ["panel", "method", "round"]
    means = frame.assign(panel=panel).groupby(by, sort=False)[["id", "ood"]].mean()
    return means.round(2).reset_index()


def _part(workspace: Workspace, collected: Collected, page: Path) -> dict[str, Any]:
    """What the page says of an experiment."""
    experiment, summaries = collected.experiment, facts.summaries(workspace, collected)
    verdicts = judge_claims(workspace, collected)
    runs = collected.runs if experiment.train else collected.runs[:0]
    counts = runs["state"].value_counts()
    file = workspace.root / "experiments" / f"{experiment.name}.yaml"
    part: dict[str, Any] = {
        "experiment": experiment,
        "anchor": experiment.name.replace("/", "-"),
        "counts": {
            "runs": len(runs),
            **{state: int(counts.get(state, 0)) for state in ("finished", "failed", "missing")},
        },
        "axes": [key for key in collected.keys if key != "method"],
        "unfinished": facts.unfinished(collected).to_dict("records") if collected.missing else [],
        "file": f"{file.relative_to(workspace.root)}, sha256 {sha256_file(file)[:16]}",
        "notes": [*claim_words.footnotes(verdicts), *notes(collected)],
        "claims": claim_words.lines(verdicts),
        "groups": claim_words.sentence_lines(workspace, verdicts),
        **{name: [] for name in ("tables", "downloads", "verdicts")},
        **{name: [] for name in ("figures", "partitions", "costs", "runs")},
        "undrawn": {},
    }
    if not summaries and experiment.train:
        return part
    tables = judged(workspace, collected)
    titled = [(experiment.tables[name].title or name, table) for name, table in tables.items()]
    part |= {
        "tables": blocks(titled),
        "downloads": downloads.of_tables(collected, tables),
        "verdicts": judge.summaries(pd.concat([*tables.values()])) if tables else [],
        "notes": [*footnotes([*tables.values()]), *part["notes"]],
    }
    return {**part, **_measured(workspace, collected, summaries, page, part["anchor"])} if summaries else part


def _measured(
    workspace: Workspace, collected: Collected, summaries: dict[str, facts.Summary], page: Path, anchor: str
) -> dict[str, Any]:
    """What the page says of an experiment's runs: figures, partitions, costs, where numbers come from."""
    costs, drawn = facts.costs(collected, summaries), workspace.figures(collected.experiment.name)
    possible, impossible = plots(workspace, collected)
    return {
        "figures": [
            _figure(plot) | {"downloads": downloads.of_figure(drawn, name, page)}
            for name, plot in possible.items()
        ],
        "undrawn": {name: str(error) for name, error in impossible.items()},
        "partitions": [
            {"text": title, "image": downloads.data_address("image/png", picture.read_bytes())}
            for title, picture in facts.partitions(workspace, collected, summaries).items()
        ],
        "costs": costs.to_dict("records"),
        "against_costs": _figure(against_costs(collected, costs)),
        "provenance": facts.provenance(summaries),
        "runs": facts.listed(collected, summaries),
    }


def _scores(costs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each method: id, ood, runs; what was not measured is left out."""
    columns = {"id": "id", "ood": "ood", "finished": "runs"}
    return {
        row["method"]: {
            name: round(row[column], 4) for name, column in columns.items() if row[column] == row[column]
        }
        for row in costs
    }


def _figure(plot: Plot) -> dict[str, Any]:
    """A figure as the page has it: title, note, alternative text, picture, and the pixels it needs."""
    image = downloads.data_address("image/svg+xml", svg(plot).encode())
    columns = max([1, *plot.frame.groupby(["row", "y_axis"])["panel"].nunique()])
    words = {"title": plot.title, "note": plot.note, "text": plot.text}
    return {
        **words,
        "image": image,
        "width": round(INCH * plot.size[0] * columns),
        "photo": bool(plot.pictures),
    }


def against_costs(collected: Collected, costs: pd.DataFrame) -> Plot:
    """Accuracy of every method against what a run of it sends, where anything travels, and against its
    seconds; `costs` of fedshift.analysis.report.facts.
    """
    metric, name = ("ood", "out-of-distribution") if costs["ood"].notna().any() else ("id", "in-distribution")
    frame = costs.rename(columns={"method": "label", metric: "y"})
    frame = frame.melt(["label", "y"], [*COSTS], "panel", "x").dropna(subset="x").replace({"panel": COSTS})
    x, y = Axis("cost of a run", from_zero=True), Axis(f"{name}\naccuracy (%)")
    return Plot("Accuracy against cost", frame, x, y, collected.experiment.rows, size=(3.6, 3.0))


def _finished(collected: Sequence[Collected]) -> str:
    """When the last of the runs ended."""
    times = pd.concat([results.runs["finished"] for results in collected]).dropna()
    last = times.max() if len(times) else None
    return f"{datetime.datetime.fromtimestamp(last, datetime.UTC):%Y-%m-%d %H:%M} UTC" if last else ""
