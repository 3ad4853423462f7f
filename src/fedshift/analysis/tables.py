"""The files of an experiment's tables: the cells of each, then verdicts, comparisons and notes."""

from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.analysis import hypotheses
from fedshift.analysis.cells import cells, judged
from fedshift.analysis.claims import words
from fedshift.analysis.claims.judge import verdicts
from fedshift.analysis.collected import TABLE, Collected
from fedshift.analysis.notes import notes
from fedshift.analysis.page import blocks, csv, footnotes, markdown
from fedshift.analysis.verdicts import summaries
from fedshift.common.files import write_text
from fedshift.storage.workspace import Workspace


def results(workspace: Workspace, collected: Collected, with_tables: bool = True) -> dict[str, Any]:
    """The parameters of `page.markdown` for an experiment's tables, comparisons, hypotheses and notes.

    Also what they are built from: `cells` by table, `compared` and `declared` (the verdicts on claims and
    hypotheses), and `below` (notes on the runs).
    """
    frames = judged(workspace, collected) if with_tables else {}
    compared, declared, below = verdicts(workspace, collected), hypotheses.judge(collected), notes(collected)
    titles = collected.experiment.tables
    return {
        "cells": frames,
        "compared": compared,
        "declared": declared,
        "below": below,
        "tables": blocks((titles[name].title or name, table) for name, table in frames.items()),
        "hypotheses": hypotheses.lines(declared),
        "verdicts": summaries(pd.concat(frames.values())) if frames else [],
        "claims": words.lines(compared),
        "sentences": words.sentence_lines(workspace, compared),
        "notes": [*footnotes([*frames.values()]), *words.footnotes(compared), *below],
    }


def write(workspace: Workspace, collected: Collected, known: dict[str, Any] | None = None) -> Path:
    """Write every table of the experiment as <name>.csv and <name>.md, and all of them as table.{csv,md}.

    The comparisons that the experiment tests are below the tables, and in claims.csv. Returns the stem of the
    last two files.

    `known`: the `results`, where they are known already.
    """
    page, folder = known or results(workspace, collected), workspace.tables(collected.experiment.name)
    for (name, table), block in zip(page["cells"].items(), page["tables"], strict=True):
        write_text(folder / f"{name}.csv", csv(table))
        write_text(folder / f"{name}.md", markdown([block], [*footnotes([table]), *page["below"]]))
    tested = {"hypotheses": page["declared"].drop(columns="text"), "claims": words.table(page["compared"])}
    for name, frame in tested.items():
        if len(frame):
            write_text(folder / f"{name}.csv", csv(frame))
        else:  # of an earlier version of the experiment
            (folder / f"{name}.csv").unlink(missing_ok=True)
    together = [table.assign(**{TABLE: name}) for name, table in page["cells"].items()]
    write_text(folder / "table.csv", csv(pd.concat(together)) if together else "")
    write_text(folder / "table.md", markdown(title=collected.experiment.title, **page))
    return folder / "table"


def long(stem: Path) -> pd.DataFrame:
    """The cells of all tables that `write` wrote, one row each."""
    file = stem.with_suffix(".csv")
    names: Any = dict.fromkeys(("method", "target"), str)  # a domain may be called NA, or 01
    options: Any = {"keep_default_na": False, "na_values": [""], "dtype": names}
    return pd.read_csv(file, **options) if file.stat().st_size > 1 else pd.DataFrame()


def with_metrics(workspace: Workspace, collected: Collected, metrics: list[str]) -> str:
    """The experiment's tables with other metrics than their own, as Markdown."""
    titled = []
    for name, table in collected.experiment.tables.items():
        changed = table.model_copy(update={"metrics": metrics})
        titled.append((table.title or name, cells(workspace, collected, changed)))
    return markdown(blocks(titled), footnotes([table for _, table in titled]))
