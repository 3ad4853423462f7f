"""Tables: methods by axis values and metrics, mean and spread over seeds, beside the published values."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.analysis.claims import words as claim_words
from fedshift.analysis.claims.judge import verdicts as judge_claims
from fedshift.analysis.clients import left_out
from fedshift.analysis.collected import ARCHIVE, BESIDE, NUMBERS, SELECT, TABLE, Collected
from fedshift.analysis.columns import of_runs
from fedshift.analysis.comparable import printed_cell
from fedshift.analysis.notes import notes
from fedshift.analysis.page import blocks, csv, footnotes, markdown
from fedshift.analysis.uneven import AVERAGE, marked
from fedshift.analysis.verdicts import judge, summaries
from fedshift.common.errors import unknown
from fedshift.common.files import write_text
from fedshift.common.registry import get
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column, measured_on_clients, quantity
from fedshift.experiments.schema import METRIC, Table
from fedshift.storage.workspace import Workspace

EXACT = 12  # decimals, beyond which a difference is rounding


def write(workspace: Workspace, collected: Collected) -> Path:
    """Write every table of the experiment as <name>.csv and <name>.md, and all of them as table.{csv,md};
    return that stem.

    The comparisons that the experiment tests stand below the tables, and in claims.csv.
    """
    experiment, folder = collected.experiment, workspace.tables(collected.experiment.name)
    tables = judged(workspace, collected)
    titled = blocks((experiment.tables[name].title or name, table) for name, table in tables.items())
    below = notes(collected)
    for (name, table), block in zip(tables.items(), titled, strict=True):
        write_text(folder / f"{name}.csv", csv(table))
        write_text(folder / f"{name}.md", markdown([block], [*footnotes([table]), *below]))
    verdicts = judge_claims(workspace, collected)
    if verdicts:
        write_text(folder / "claims.csv", csv(claim_words.table(verdicts)))
    together = [table.assign(**{TABLE: name}) for name, table in tables.items()]
    below = [*footnotes([*tables.values()]), *claim_words.footnotes(verdicts), *below]
    lines = (
        summaries(pd.concat(together)) if together else [],
        claim_words.lines(verdicts),
        claim_words.sentence_lines(workspace, verdicts),
    )
    write_text(folder / "table.csv", csv(pd.concat(together)) if together else "")
    write_text(folder / "table.md", markdown(titled, below, experiment.title, *lines))
    return folder / "table"


def judged(workspace: Workspace, collected: Collected) -> dict[str, pd.DataFrame]:
    """The cells of every table of the experiment, with the verdicts on those that stand beside a printed
    number.
    """
    return {
        name: judge(workspace, collected, cells(workspace, collected, table))
        for name, table in collected.experiment.tables.items()
    }


def with_metrics(workspace: Workspace, collected: Collected, metrics: list[str]) -> str:
    """The experiment's tables with other metrics than their own, as markdown."""
    titled = []
    for name, table in collected.experiment.tables.items():
        changed = table.model_copy(update={"metrics": metrics})
        titled.append((table.title or name, cells(workspace, collected, changed)))
    return markdown(blocks(titled), footnotes([table for _, table in titled]))


def cells(workspace: Workspace, collected: Collected, table: Table) -> pd.DataFrame:
    """One row per cell: method, the axes in `table.columns`, metric (last, or where they name it); mean, std
    (percent where the metric is a fraction), seeds, planned; then BESIDE.

    published, published_std, difference, uid: of a paper's number that the cell may be compared with
    low, high, margin, rule, verdict: fedshift.analysis.verdicts fills them
    orientation, orientation_std: of a number that it may not be compared with; `differs`: why
    remark, spread: what a reader must know of the published number
    fewer: which values of the other axes the cell has, where cells beside it have more of them
    clients: "2 of 3" where a value is of 2 of 3 clients only
    archived: how many of the cell's runs are read from the archive

    An adapted row has accuracy and loss on the held-out domain alone. Axes that are not columns are averaged
    within each seed, then seeds. A seed with a missing run counts in `planned` (how many seeds the cell
    should have) and not in `seeds`: an average over fewer domains is another quantity. Raises FedshiftError
    for a column that is no axis of the experiment.
    """
    keys, experiment = collected.keys, collected.experiment
    columns = [axis for axis in table.columns if axis != METRIC]
    rules = [*table.select] or [collected.protocol.select]
    for axis in columns:
        if axis not in keys[1:]:
            raise unknown(f"experiments/{experiment.name}.yaml: tables", "axis", axis, keys[1:])
    order = {axis: [*collected.order[axis]] for axis in columns}
    frame = pd.concat([of_runs(workspace, collected, rule, table).assign(**{SELECT: rule}) for rule in rules])
    if "target" in columns and len(order["target"]) > 1:
        frame = pd.concat([frame, frame[frame["target"] != NONE].assign(target=AVERAGE)])
        order["target"].append(AVERAGE)
    frame = frame.melt([*keys, SELECT], [*table.metrics], "metric")
    kinds = {metric: column(metric) for metric in table.metrics}
    # An adapted row has what is recorded on the held-out domain.
    quantities = {metric: quantity(own.name) for metric, own in kinds.items() if own.kind == "quantity"}
    on_domain = [
        metric for metric, (name, how) in quantities.items() if how == "ood" and get("metrics", name).recorded
    ]
    adapted = frame["method"].isin(list(experiment.adapt))
    frame = frame[~adapted | frame["metric"].isin(on_domain)]
    # No run can fill a row's gain over itself, nor a setting that its method does not have.
    gains = [metric for metric, own in kinds.items() if own.relative == "gain"]
    settings = [metric for metric, own in kinds.items() if own.kind == "setting"]
    itself = frame["metric"].isin(gains) & (frame["method"] == table.against)
    frame = frame[~(itself | (frame["metric"].isin(settings) & frame["value"].isna()))]
    order |= {"method": experiment.rows, SELECT: rules, "metric": [*table.metrics]}
    columns += [SELECT] * bool(table.select)
    for name, categories in order.items():
        frame[name] = pd.Categorical(frame[name], categories)
    place = table.columns.index(METRIC) if METRIC in table.columns else len(columns)
    by = ["method", *columns[:place], METRIC, *columns[place:]]
    seed = [axis for axis in keys if axis == "seed"]
    within = frame.groupby([*by, *seed], observed=True)["value"].mean(skipna=False)  # NaN where a run is
    groups = within.groupby(by, observed=True)
    seeds = groups.count()
    varies = ~seeds.index.get_level_values(METRIC).isin([name for name, own in kinds.items() if own.declared])
    std = groups.std(ddof=collected.protocol.ddof).where((seeds > 1) & varies)
    result = pd.DataFrame(dict(zip(NUMBERS, (groups.mean(), std, seeds, groups.size()), strict=True)))
    return _beside(workspace, collected, table, result.reset_index(), columns)


def _beside(
    workspace: Workspace, collected: Collected, table: Table, result: pd.DataFrame, columns: list[str]
) -> pd.DataFrame:
    """The cells, each with the paper's number and the remarks on it."""
    experiment, protocol, runs = collected.experiment, collected.protocol, collected.runs
    uses = runs[collected.keys].fillna(NONE).to_dict("records")
    lacking = marked(uses, [column for column in columns if column != SELECT])
    few = functools.cache(functools.partial(left_out, collected))
    archived = (runs["source"] == ARCHIVE).to_numpy(bool)

    @functools.cache
    def at(axis: str, value: Any) -> NDArray[np.bool_]:
        column = runs[axis]
        return (column != NONE if value == AVERAGE else column == value).to_numpy(bool)

    def averaged(values: dict[str, Any], method: str) -> NDArray[np.bool_]:
        """Which planned runs a cell averages: of a method, at these values on axes."""
        return np.logical_and.reduce([at("method", method), *(at(*item) for item in values.items())])

    def runs_of(values: dict[str, Any], method: str) -> pd.DataFrame:
        return runs[averaged(values, method)]

    rows = []
    for cell in result.to_dict("records"):
        method, metric, rule = cell["method"], cell["metric"], cell.get(SELECT, protocol.select)
        values = {axis: cell[axis] for axis in columns if axis != SELECT}
        own = averaged(values, method)
        row: dict[str, Any] = dict.fromkeys(BESIDE)
        row |= {"fewer": lacking.get((method, *values.values())), "archived": (own & archived).sum()}
        if of_clients := measured_on_clients(metric):
            row["clients"] = ", ".join(filter(None, few(of_clients, rule)[own].unique()))
        named = {axis: "mean" if value == AVERAGE else value for axis, value in values.items()}
        printed, differs = printed_cell(
            workspace,
            experiment,
            protocol,
            table,
            (method, named, metric),
            functools.partial(runs_of, values),
        )
        if printed and rule == protocol.select:
            row |= {"remark": printed.remark, "spread": printed.spread, "differs": "; ".join(differs)}
            if differs:
                row |= {"orientation": printed.value, "orientation_std": printed.std}
            else:
                row |= {"published": printed.value, "published_std": printed.std, "uid": printed.uid}
                row["difference"] = round(cell["mean"] - printed.judged, EXACT)
        if column(metric).kind == "layer":
            row |= _layer(workspace, collected, table, metric, runs[own])
        rows.append(row)
    beside = pd.DataFrame(rows, columns=[*BESIDE], index=result.index)
    words = [name for name, kind in BESIDE.items() if kind is str]
    return pd.concat([result, beside.fillna(dict.fromkeys(words, "")).astype(BESIDE)], axis=1)


def _layer(
    workspace: Workspace, collected: Collected, table: Table, metric: str, runs: pd.DataFrame
) -> dict[str, Any]:
    """A layer in words, ours and the paper's; of runs with several networks all that they have there."""
    from fedshift.analysis.layers import layer, printed_layer

    paper, (printed, *_) = collected.experiment.paper, table.printed
    name = column(metric).name
    ours = dict.fromkeys(layer(workspace, paper, printed, name, spec).text for spec in runs["spec"])
    theirs = printed_layer(workspace, paper, printed, f"layer{name.partition('.')[2]}")
    return {"text": " or ".join(ours), "published_text": theirs}
