"""Tables as one puts them into a paper or a README."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedshift.analysis import tables
from fedshift.analysis.collection import sources
from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.export import html, latex, markdown
from fedshift.analysis.export.content import exported
from fedshift.analysis.export.typeset import pdf
from fedshift.analysis.layout.page import csv
from fedshift.analysis.verdicts import judge
from fedshift.common.files import write_text
from fedshift.storage.workspace import Workspace

FORMATS = ("tex", "pdf", "csv", "md", "html")
KINDS = {"tex": latex, "pdf": latex, "md": markdown, "html": html}


def write(
    workspace: Workspace, collected: Collected, folder: Path, formats: set[str], printed: bool = False
) -> list[Path]:
    """Write each table of an experiment as <table>.<format> for each of the formats (of FORMATS); return the
    files.

    printed: the paper's value and the verdict on it stand below ours. Raises FedshiftError where a PDF cannot
    be made.
    """
    experiment = collected.experiment
    cells = {name: tables.cells(workspace, collected, table) for name, table in experiment.tables.items()}
    judged = judge.judge(workspace, collected, cells) if printed else None
    written = []
    for name, table in cells.items():
        if judged is not None:
            words = dict(zip(judged["cell"], judged["verdict"], strict=True))
            table = table.assign(
                verdict=[words.get(key, "") for key in judge.keys_of(collected, name, table)]
            )
        for suffix in FORMATS:
            if suffix not in formats:
                continue
            written.append(folder / f"{name}.{suffix}")
            if suffix == "csv":
                write_text(written[-1], csv(cells[name]))
                continue
            rendered = text(collected, name, table, suffix)
            if suffix == "pdf":
                pdf(rendered, written[-1])
            else:
                write_text(written[-1], rendered)
    return written


def text(collected: Collected, name: str, cells: pd.DataFrame, suffix: str) -> str:
    """The experiment's table `name` as one of KINDS writes it; `pdf`: the LaTeX that it is made of."""
    experiment, kind = collected.experiment, KINDS[suffix]
    title = ". ".join(filter(None, [experiment.tables[name].title, experiment.title]))
    remarks = sources.note(collected.runs[collected.runs["state"] == "finished"])
    return kind.render(exported(title, cells, kind.STYLE, remarks))
