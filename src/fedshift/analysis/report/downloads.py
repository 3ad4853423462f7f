"""Files that the report offers below its tables and figures.

A table's are small and lie within the page; a figure's are those of `fedshift figure`, where it has drawn
them.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.latex import text
from fedshift.analysis.layout.page import csv

FIGURE = {"SVG": "svg", "PDF": "pdf", "PNG": "png", "CSV": "csv"}


@dataclass(frozen=True)
class Download:
    """A link: its word, the name under which a browser keeps the file, and the address."""

    word: str
    name: str
    address: str


def of_tables(collected: Collected, tables: Mapping[str, pd.DataFrame]) -> list[list[Download]]:
    """For each table (name -> cells) CSV and LaTeX, as data addresses."""
    return [
        [
            _within("CSV", f"{name}.csv", "text/csv", csv(cells)),
            _within("LaTeX", f"{name}.tex", "application/x-tex", text(collected, name, cells)),
        ]
        for name, cells in tables.items()
    ]


def of_figure(folder: Path, name: str, page: Path) -> list[Download]:
    """A figure's files in `folder`, as addresses relative to the page; those that are not there are left
    out.
    """
    files = {word: folder / f"{name}.{suffix}" for word, suffix in FIGURE.items()}
    return [
        Download(word, file.name, Path(os.path.relpath(file, page.parent)).as_posix())
        for word, file in files.items()
        if file.is_file()
    ]


def _within(word: str, name: str, kind: str, content: str) -> Download:
    return Download(word, name, data_address(f"{kind};charset=utf-8", content.encode()))


def data_address(kind: str, content: bytes) -> str:
    """The address of a file that lies within the page; kind: its MIME type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
