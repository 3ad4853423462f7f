"""Report: tables, curves, partitions, costs and provenance of experiments, in one offline HTML file."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup
from plotly.offline import get_plotlyjs

import fedshift
from fedshift.analysis import claim_groups, claims
from fedshift.analysis import report_facts as facts
from fedshift.analysis import report_plots as plots
from fedshift.analysis.check import Comparison, check
from fedshift.analysis.collect import Collected, read
from fedshift.analysis.footnotes import footnotes
from fedshift.analysis.notes import notes
from fedshift.analysis.page import blocks, template
from fedshift.analysis.report_page import TEMPLATE, number
from fedshift.analysis.tables import cells
from fedshift.errors import FedshiftError
from fedshift.files import sha256_file, write_json, write_text
from fedshift.workspace import Workspace

# Without the button that would send a chart to plotly's servers.
CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["sendChartToCloud"]}


def write(workspace: Workspace, names: Sequence[str], name: str) -> Path:
    """Write results/report/<name>/index.html, and scores.json beside it: experiment -> method -> id, ood (percent), runs.

    An experiment that was not collected is named as absent. Raises FedshiftError where none was.
    """
    there = [name for name in names if workspace.metrics(name).is_file()]
    if not there:
        raise FedshiftError(
            workspace.metrics(names[0]).parent,
            "no runs have been collected",
            f"Run `fedshift collect {names[0]}` first.",
        )
    collected = [read(workspace, name) for name in there]
    title = collected[0].experiment.title if len(names) == 1 else f"{len(names)} experiments"
    path = workspace.report(name) / "index.html"
    parts = [_part(workspace, one) for one in collected]
    html = template(TEMPLATE).render(
        number=number, title=title, version=fedshift.__version__, commit=facts.commit(workspace.root), plotly=Markup(get_plotlyjs()),
        parts=parts, absent=[name for name in names if name not in there],
        finished=_finished(collected),
    )  # fmt: skip
    write_text(path, html)
    write_json(
        path.with_name("scores.json"), {part["experiment"].name: _scores(part["costs"]) for part in parts}
    )
    return path


def _part(workspace: Workspace, collected: Collected) -> dict[str, Any]:
    """What the page shows of one experiment."""
    experiment, found = collected.experiment, facts.summaries(workspace, collected)
    judged = claims.verdicts(workspace.root, collected)
    comparisons, counts = check(collected), collected.runs["state"].value_counts()
    file = workspace.root / "experiments" / f"{experiment.name}.yaml"
    part: dict[str, Any] = {
        "experiment": experiment,
        "anchor": experiment.name.replace("/", "-"),
        "counts": {"runs": len(collected.runs), **{state: int(counts.get(state, 0)) for state in ("finished", "failed", "missing")}},
        "checks": len(comparisons),
        "short": [_told(one) for one in comparisons if not one.passed],
        "axes": [key for key in collected.keys if key != "method"],
        "unfinished": facts.unfinished(collected).to_dict("records") if collected.missing else [],
        "file": f"{file.relative_to(workspace.root)}, sha256 {sha256_file(file)[:16]}",
        "notes": [*claims.footnotes(judged), *notes(collected)],
        "claims": claims.lines(judged),
        "groups": claim_groups.lines(claim_groups.groups(workspace.root, judged)),
    }  # fmt: skip
    if not found:
        return {**part, "tables": [], "curves": {}, "partitions": {}, "costs": [], "runs": []}
    tables = [
        (table.title or name, cells(workspace.root, collected, table))
        for name, table in experiment.tables.items()
    ]
    costs, anchor = facts.costs(collected, found), part["anchor"]
    curves, bands = plots.learning_curves(workspace.root, collected)
    held = facts.partitions(workspace, collected, found)
    return {
        **part,
        "tables": blocks(tables),
        "notes": [*footnotes([table for _, table in tables]), *part["notes"]],
        "bands": bands,
        "curves": {name: _div(one, f"{anchor}-curves{i}") for i, (name, one) in enumerate(curves.items())},
        "partitions": {
            name: _div(plots.partitions(one), f"{anchor}-clients{i}") for i, (name, one) in enumerate(held.items())
        },
        "costs": costs.to_dict("records"),
        "against_costs": _div(plots.against_costs(collected, costs), f"{anchor}-costs"),
        "provenance": facts.provenance(found),
        "runs": facts.listed(collected, found),
    }  # fmt: skip


def _scores(costs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    shown = {"id": "id", "ood": "ood", "finished": "runs"}
    return {
        row["method"]: {
            name: round(row[column], 4) for name, column in shown.items() if row[column] == row[column]
        }
        for row in costs
    }


def _div(figure: go.Figure, name: str) -> Markup:
    return Markup(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=CONFIG))


def _told(one: Comparison) -> str:
    value = "nothing" if one.value is None else number(one.value)
    return f"{one.what}: {value}, must be {one.relation.replace('>=', 'at least').replace('=', 'equal to')} {number(one.bound)}"


def _finished(collected: Sequence[Collected]) -> str:
    times = [pc.max(pq.read_table(one.path, columns=["time"])["time"]).as_py() for one in collected]
    last = max((time for time in times if time), default=None)
    return f"{datetime.datetime.fromtimestamp(last, datetime.UTC):%Y-%m-%d %H:%M} UTC" if last else ""
