"""LaTeX of a table: booktabs rules, siunitx numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedshift.analysis.collection.sources import MARK
from fedshift.analysis.export.content import Exported, Style, lines
from fedshift.analysis.layout.footnotes import CLIENTS, FEWER, REMARK
from fedshift.analysis.layout.grid import Grid

TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", FEWER: r"\textdagger{}", REMARK: r"\textdaggerdbl{}", MARK: r"\S{}",
    CLIENTS: r"\P{}", "±": r"\(\pm\)", "–": "--", "−": r"\(-\)", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(TEX.get(character, character) for character in text)


STYLE = Style(
    _tex,
    lambda mean, deviation: rf"\num{{{mean} +- {deviation}}}" if deviation else rf"\num{{{mean}}}",
    lambda text: rf"\textbf{{{text}}}",
    lambda text: rf"\underline{{{text}}}",
)


def render(table: Exported) -> str:
    """A `table` environment for each block, so that none is longer than a page: needs the packages booktabs,
    siunitx and graphicx.
    """
    blocks = [_environment(table, block, last=block is table.blocks[-1]) for block in table.blocks]
    return "\n".join(blocks)


def _environment(table: Exported, block: Grid[tuple[str, ...]], last: bool) -> str:
    """The table of one block; the notes stand below the last."""
    caption = ": ".join(filter(None, [table.title, block.caption]))
    rows = []
    for method, entries in block.rows:
        texts = [
            " & ".join([_tex(name), *cells]) + r" \\" for name, cells in lines(method, entries, table.below)
        ]
        rows.append("\n".join(texts))
    notes = [rf"\par\smallskip{{\footnotesize {_tex(note)}\par}}" for note in table.notes] if last else []
    parts = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(caption)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * len(block.columns)}}}",
        r"\toprule",
        *_tex_headings(block.columns),
        r"\midrule",
        ("\n\\addlinespace\n" if table.below else "\n").join(rows),
        r"\bottomrule",
        r"\end{tabular}}",
        *notes,
        r"\end{table}",
    ]
    return "\n".join(parts) + "\n"


def _tex_headings(columns: Sequence[tuple[str, ...]]) -> list[str]:
    """A line of headings for each level, with rules below what spans several columns."""
    lines = []
    for depth in range(len(columns[0])):
        spans: list[list[Any]] = []
        for column in columns:
            if spans and depth < len(columns[0]) - 1 and spans[-1][0] == column[: depth + 1]:
                spans[-1][1] += 1
            else:
                spans.append([column[: depth + 1], 1])
        lines.append(
            " & ".join(["", *(rf"\multicolumn{{{n}}}{{c}}{{{_tex(path[-1])}}}" for path, n in spans)])
            + r" \\"
        )
        start, rules = 2, []
        for _, n in spans:
            rules += [rf"\cmidrule(lr){{{start}-{start + n - 1}}}"] if n > 1 else []
            start += n
        lines += ["".join(rules)] if rules else []
    return lines
