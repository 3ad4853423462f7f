"""The files of an experiment's tables: the cells of each, and below them verdicts, comparisons and notes."""

from pathlib import Path

import pandas as pd

from fedshift.analysis.cells import cells, judged
from fedshift.analysis.claims import words as claim_words
from fedshift.analysis.claims.judge import verdicts as judge_claims
from fedshift.analysis.collected import TABLE, Collected
from fedshift.analysis.notes import notes
from fedshift.analysis.page import blocks, csv, footnotes, markdown
from fedshift.analysis.verdicts import summaries
from fedshift.common.files import write_text
from fedshift.storage.workspace import Workspace


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


def with_metrics(workspace: Workspace, collected: Collected, metrics: list[str]) -> str:
    """The experiment's tables with other metrics than their own, as markdown."""
    titled = []
    for name, table in collected.experiment.tables.items():
        changed = table.model_copy(update={"metrics": metrics})
        titled.append((table.title or name, cells(workspace, collected, changed)))
    return markdown(blocks(titled), footnotes([table for _, table in titled]))
