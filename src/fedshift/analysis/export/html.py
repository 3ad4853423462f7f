"""HTML of a table."""

from __future__ import annotations

from html import escape

from fedshift.analysis.export.content import Exported, Style, lines, plain

STYLE = Style(escape, plain, lambda text: f"<b>{text}</b>", lambda text: f"<u>{text}</u>")


def render(table: Exported) -> str:
    """A `section` without styles, for a page of one's own."""
    parts = [f"<section>\n<h2>{escape(table.title)}</h2>"]
    for block in table.blocks:
        caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
        heads = "".join(f"<th>{escape(' '.join(column))}</th>" for column in block.columns)
        parts.append(f"<table>{caption}\n<thead><tr><th></th>{heads}</tr></thead>\n<tbody>")
        for method, entries in block.rows:
            for name, texts in lines(method, entries, table.below):
                data = "".join(f"<td>{text}</td>" for text in texts)
                parts.append(f"<tr><th>{escape(name)}</th>{data}</tr>")
        parts.append("</tbody></table>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return "\n".join([*parts, f"<ul>{notes}</ul>\n</section>"]) + "\n"
