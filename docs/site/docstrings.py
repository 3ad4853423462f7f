"""An extension of griffe: the house's docstrings as Markdown.

Lines `name: meaning` become a list, an example (`>>>`) a block of code, and `Raises` begins a paragraph.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from griffe import Extension, Object

ENTRY = re.compile(r"^(`?[*\w.]+`?(?:, `?[*\w.]+`?)*): (?=\S)", re.MULTILINE)
NEXT = re.compile(r"; (?=`?[*\w.]+`?(?:, `?[*\w.]+`?)*: )")  # another entry in the same line


class HouseStyle(Extension):
    """Rewrites every docstring of the package."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """The docstring with its paragraphs as Markdown."""
    return "\n\n".join(map(_paragraph, re.split(r"\n{2,}", inspect.cleandoc(docstring))))


def _paragraph(text: str) -> str:
    """Code where it is an example; else with a list of its entries, if it has any."""
    if text.startswith(">>> "):
        return f"```pycon\n{text}\n```"
    lines: list[str] = []
    for line in (NEXT.sub("\n", text) if ENTRY.match(text) else text).splitlines():
        if found := ENTRY.match(line):
            if lines and not lines[-1].startswith("- "):
                lines.append("")
            names = ", ".join(f"`{name.strip('`')}`" for name in found[1].split(", "))
            lines.append(f"- {names}: {line[found.end() :]}")
        elif line.startswith("- "):
            lines += ["", line] if lines and not lines[-1].startswith("- ") else [line]
        elif lines and line.startswith(" "):
            lines[-1] += f" {line.strip()}"
        elif lines and (line.startswith("Raises ") or lines[-1].startswith("- ")):
            lines += ["", line]
        else:
            lines.append(line)
    return "\n".join(lines)
