"""Tables: methods by axis values and metrics, mean and spread over seeds, beside the published values."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedshift.analysis import claims, published
from fedshift.analysis.collect import Collected
from fedshift.analysis.notes import notes
from fedshift.analysis.page import html, markdown
from fedshift.analysis.select import METRICS, selected
from fedshift.errors import unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.declared import Rule, Table
from fedshift.files import write_text
from fedshift.workspace import Workspace

AVERAGE = "Average"
SELECT = "select"


def write(workspace: Workspace, collected: Collected) -> Path:
    """Write every table of the experiment as <name>.csv and <name>.md, and all of them as table.{csv,md,html}; return that stem.

    Claims that the experiment tests stand below the tables, and in claims.csv.
    """
    experiment, folder, below = (
        collected.experiment,
        workspace.tables(collected.experiment.name),
        notes(collected),
    )
    tables = {name: cells(workspace.root, collected, table) for name, table in experiment.tables.items()}
    titled = [(experiment.tables[name].title or name, table) for name, table in tables.items()]
    for (name, table), one in zip(tables.items(), titled, strict=True):
        write_text(folder / f"{name}.csv", _csv(table))
        write_text(folder / f"{name}.md", markdown([one], below))
    found = claims.verdicts(workspace.root, collected)
    if found:
        write_text(folder / "claims.csv", _csv(claims.table(found)))
    together = [table.assign(table=name) for name, table in tables.items()]
    write_text(folder / "table.csv", _csv(pd.concat(together)) if together else "")
    write_text(folder / "table.md", markdown(titled, below, experiment.title, claims.lines(found)))
    write_text(folder / "table.html", html(titled, below, experiment, claims.lines(found)))
    return folder / "table"


def cells(root: Path, collected: Collected, table: Table) -> pd.DataFrame:
    """One row per cell: method, the axes in `table.columns`, metric; mean, std (percent), seeds, planned; published, published_std, difference.

    An adapted row has `ood` alone. Axes that are not columns are averaged within each seed, then seeds. A seed with a missing run counts in `planned` (how many
    seeds the cell should have) and not in `seeds`: an average over fewer domains is another quantity. Raises FedshiftError for a
    column that is no axis of the experiment.
    """
    keys, columns, experiment = collected.keys, list(table.columns), collected.experiment
    rules = [*table.select] or [collected.protocol.select]
    for column in columns:
        if column not in keys[1:]:
            raise unknown(f"experiments/{experiment.name}.yaml: tables", "axis", column, keys[1:])
    order = {column: [*dict.fromkeys(collected.runs[column])] for column in columns}
    frame = pd.concat([_by_rule(collected, rule) for rule in rules])
    if "target" in columns and len(order["target"]) > 1:
        frame = pd.concat([frame, frame[frame["target"] != NONE].assign(target=AVERAGE)])
        order["target"].append(AVERAGE)
    frame = frame.melt([*keys, SELECT], [*table.metrics], "metric")
    frame = frame[(frame["metric"] == "ood") | ~frame["method"].isin(list(experiment.adapt))]
    order |= {"method": experiment.rows, SELECT: rules, "metric": [*table.metrics]}
    columns += [SELECT] * bool(table.select)
    for column, categories in order.items():
        frame[column] = pd.Categorical(frame[column], categories)
    by = ["method", *columns, "metric"]
    seed = [axis for axis in keys if axis == "seed"]
    within = frame.groupby([*by, *seed], observed=True)["value"].apply(
        lambda values: values.mean(skipna=False)
    )
    groups = within.groupby(by, observed=True)
    result = pd.DataFrame({"mean": groups.mean(), "seeds": groups.count(), "planned": groups.size()})
    result.insert(1, "std", groups.std(ddof=collected.protocol.ddof).where(result["seeds"] > 1))
    return _beside(root, collected, result.reset_index(), columns)


def _by_rule(collected: Collected, rule: Rule) -> pd.DataFrame:
    """One row per planned run: keys, METRICS in the round that a rule chooses, and the rule."""
    chosen = selected(collected, rule)[[*collected.keys, *METRICS]]
    return collected.runs[collected.keys].merge(chosen, on=collected.keys, how="left").assign(select=rule)


def _beside(root: Path, collected: Collected, result: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    found = []
    for row in result.to_dict("records"):
        values = {axis: "mean" if row[axis] == AVERAGE else row[axis] for axis in columns}
        rule = values.pop(SELECT, collected.protocol.select)
        printed = published.find(root, collected.experiment, row["method"], values, row["metric"])
        printed = printed if rule == collected.protocol.select else None
        difference = row["mean"] - printed.value if printed and printed.judged else None
        found.append((printed.value, printed.std, difference) if printed else (None, None, None))
    beside = pd.DataFrame(
        found, columns=["published", "published_std", "difference"], index=result.index, dtype=float
    )
    return pd.concat([result, beside], axis=1)


def _csv(table: pd.DataFrame) -> str:
    return str(table.to_csv(index=False, float_format="%.4f"))
