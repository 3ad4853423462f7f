"""Tables as one puts them into a paper or a README."""

from __future__ import annotations

from pathlib import Path

from fedshift.analysis import judge, sources, tables
from fedshift.analysis.collected import Collected
from fedshift.analysis.export import html, latex, markdown
from fedshift.analysis.export.content import exported
from fedshift.analysis.export.typeset import pdf
from fedshift.files import write_text
from fedshift.workspace import Workspace

FORMATS = ("tex", "pdf", "csv", "md", "html")


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
    remarks = sources.note(collected.runs[collected.runs["state"] == "finished"])
    written = []
    for name, table in cells.items():
        title = ". ".join(filter(None, [experiment.tables[name].title, experiment.title]))
        own = None if judged is None else judged[judged["table"] == name]
        tex = latex.latex(exported(title, table, latex.STYLE, remarks, own))
        texts = {
            "tex": tex,
            "csv": str(table.to_csv(index=False, float_format="%.4f")),
            "md": markdown.markdown(exported(title, table, markdown.STYLE, remarks, own)),
            "html": html.html(exported(title, table, html.STYLE, remarks, own)),
        }
        for suffix in FORMATS:
            if suffix not in formats:
                continue
            written.append(folder / f"{name}.{suffix}")
            if suffix == "pdf":
                pdf(tex, written[-1])
            else:
                write_text(written[-1], texts[suffix])
    return written
