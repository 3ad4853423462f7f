"""Published weights and official lists that the asked experiments need."""

from __future__ import annotations

from collections.abc import Iterator

from fedshift.doctor.finding import Finding
from fedshift.planning.lacking import lacking, needed_weights
from fedshift.planning.plan import specs
from fedshift.planning.request import Request
from fedshift.workspace import Workspace


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """One line for each file that is there, and for each thing that is not; nothing where nothing is needed."""
    runs = specs(workspace, asked)
    for file in {file: None for spec in runs for file in needed_weights(workspace, spec)}:
        if file.path.is_file():
            yield Finding("weights", "ok", f"{file.name} in {file.path.parent}")
    for lack, count in lacking(workspace, runs).items():
        yield Finding(lack.kind, "wrong", f"not there: {lack.what}; {count} runs cannot run here", lack.cure)
