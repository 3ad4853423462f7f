"""Markdown of a table."""

from __future__ import annotations

from fedshift.analysis.export.content import Exported, Style, lines, plain
from fedshift.analysis.layout.page import piped

STYLE = Style(str, plain, lambda text: f"**{text}**", lambda text: f"<u>{text}</u>")


def render(table: Exported) -> str:
    """A heading, a table for each block, a list of notes."""
    parts = [f"## {table.title}"]
    for block in table.blocks:
        parts += [f"**{block.caption}**"] if block.caption else []
        rows = [["", *(" ".join(column) for column in block.columns)]]
        for method, entries in block.rows:
            rows += [[name, *texts] for name, texts in lines(method, entries, table.below)]
        parts.append(piped(rows, ["---", *["--:"] * len(block.columns)]))
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in table.notes)]) + "\n"
