"""LaTeX of an experiment's tables: booktabs rules, siunitx numbers.

The best mean of a column is bold, the second best underlined. A cell with an unusual number of seeds shows
that number, and marks are explained below the table. Optionally, the published value and the verdict on it
are below ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.analysis.cells import judged
from fedshift.analysis.collected import Collected
from fedshift.analysis.notes import archived_note
from fedshift.analysis.page import (
    BEST,
    CLIENTS,
    FEWER,
    MARK,
    REMARK,
    SECOND,
    Grid,
    footnotes,
    headings,
    laid_out,
)
from fedshift.common.files import write_text
from fedshift.experiments.column import column
from fedshift.storage.workspace import Workspace

INDENT = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"  # of the lines below a method's own
EMPHASIS = {BEST: r"\textbf{%s}", SECOND: r"\underline{%s}"}
TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", FEWER: r"\textdagger{}", REMARK: r"\textdaggerdbl{}", MARK: r"\S{}",
    CLIENTS: r"\P{}", "±": r"\(\pm\)", "–": "--", "−": r"\(-\)", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip


def write(workspace: Workspace, collected: Collected, folder: Path, printed: bool = False) -> list[Path]:
    """Write each table of an experiment as <table>.tex, for booktabs, siunitx and graphicx; return the files.

    `printed`: add the published value and the verdict on it below ours.
    """
    written = []
    for name, table in judged(workspace, collected).items():
        written.append(folder / f"{name}.tex")
        write_text(written[-1], _text(collected, name, table, printed))
    return written


def _text(collected: Collected, name: str, cells: pd.DataFrame, printed: bool) -> str:
    """One `table` environment per block of the table `name`, so that none is longer than a page."""
    counts = cells.loc[cells["seeds"] > 0, "seeds"].mode()
    usual = 0 if counts.empty else int(counts.iloc[0])  # number of seeds of most finished cells

    def entry(cell: Mapping[Hashable, Any], form: Callable[[float], str]) -> dict[str, str]:
        kind = "published" if pd.notna(cell["published"]) else "orientation"
        mark = REMARK if cell["remark"] and pd.notna(cell[kind]) else ""
        number = _number(cell[kind], cell[f"{kind}_std"], form) + escaped(mark)
        below = {"published": escaped(cell["published_text"]) or number, "verdict": escaped(cell["verdict"])}
        return {"": _own(cell, form, usual)} | (below if printed else {})

    notes = []
    if not all(column(str(name)).declared for name in cells["metric"].unique()):
        spread = "Mean over 1 seed" if usual == 1 else f"Mean ± standard deviation over {usual} seeds"
        counted = f"{spread}, unless stated as (n = ...); best bold, second underlined."
        notes.append(
            counted if usual else "No cell has a number: the runs that it averages are not finished."
        )
    notes += footnotes([cells])
    notes += archived_note(collected.runs[collected.runs["state"] == "finished"])
    experiment, blocks = collected.experiment, laid_out(cells, entry)
    title = ". ".join(filter(None, [experiment.tables[name].title, experiment.title]))
    return "\n".join(_environment(title, block, notes if block is blocks[-1] else []) for block in blocks)


def escaped(text: str) -> str:
    """Escape the characters that LaTeX would take for commands."""
    return "".join(TEX.get(character, character) for character in text)


def _own(cell: Mapping[Hashable, Any], text: Callable[[float], str], usual: int) -> str:
    """Our number with its emphasis, the number of seeds if it is unusual, and marks."""
    if cell["text"]:
        return escaped(f"{cell['text']}: {text(cell['mean'])}")
    number = _number(cell["mean"], cell["std"], text)
    if not number:
        return escaped("–")
    seeds, planned = int(cell["seeds"]), int(cell["planned"])
    count = f" (n = {seeds} of {planned})" if seeds < planned else f" (n = {seeds})" * (seeds != usual)
    marks = {FEWER: "fewer", MARK: "archived", CLIENTS: "clients"}
    own = EMPHASIS.get(cell["rank"], "%s") % number
    return own + escaped(count + "".join(mark for mark, column in marks.items() if cell[column]))


def _number(mean: float, deviation: float, text: Callable[[float], str]) -> str:
    if pd.isna(mean):
        return ""
    return rf"\num{{{text(mean)}}}" if pd.isna(deviation) else rf"\num{{{text(mean)} +- {text(deviation)}}}"


def _environment(title: str, block: Grid, notes: Sequence[str]) -> str:
    """The table of one block, with notes below it."""
    rows = []
    for method, lines in block.rows:
        shown = {INDENT + line if line else method: texts for line, texts in lines.items() if any(texts)}
        rows.append("\n".join(" & ".join([escaped(name), *of]) + r" \\" for name, of in shown.items()))
    apart = "\n\\addlinespace\n" if "verdict" in block.rows[0][1] else "\n"
    parts = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(': '.join(filter(None, [title, block.caption])))}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * len(block.columns)}}}",
        r"\toprule",
        *_headings(block.columns),
        r"\midrule",
        apart.join(rows),
        r"\bottomrule",
        r"\end{tabular}}",
        *(rf"\par\smallskip{{\footnotesize {escaped(note)}\par}}" for note in notes),
        r"\end{table}",
    ]
    return "\n".join(parts) + "\n"


def _headings(columns: list[tuple[str, ...]]) -> list[str]:
    """One line of headings per level, with rules below headings that span several columns."""
    lines = []
    for level in headings(columns):
        heads = (rf"\multicolumn{{{n}}}{{c}}{{{escaped(text)}}}" for text, n in level)
        lines.append(" & ".join(["", *heads]) + r" \\")
        ends = itertools.accumulate(n for _, n in level)
        pairs = zip(level, ends, strict=True)
        rules = "".join(rf"\cmidrule(lr){{{end - n + 2}-{end + 1}}}" for (_, n), end in pairs if n > 1)
        lines += [rules] if rules else []
    return lines
