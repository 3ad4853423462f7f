"""Data that the requested experiments need: data sets, published weights and official lists."""

from __future__ import annotations

from collections.abc import Iterator

from fedshift.data.state import State, states
from fedshift.doctor.finding import Finding
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.planning.lacking import lacking, needed_weights
from fedshift.planning.plan import specs
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace


def datasets(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """One line for each data set and release, and how far it has come."""
    needed: dict[tuple[str, str], list[str]] = {}
    for name in request.experiments:
        cells = expand(workspace, load(workspace, name))
        for images in dict.fromkeys((cell.spec.data.dataset, cell.spec.data.release) for cell in cells):
            needed.setdefault(images, []).append(name)
    for (dataset, release), users in needed.items():
        state = states(workspace, dataset).get(release, State("absent"))
        options = "" if release == "original" else f" --release {release}"
        if state.raw == "absent":
            text = f"{state}; needed by {', '.join(users)}"
            yield Finding(f"data {dataset}", "wrong", text, f"fedshift fetch {dataset}{options}")
        elif state.raw == "raw":
            yield Finding(f"data {dataset}", "absent", str(state), f"fedshift verify {dataset}{options}")
        else:
            yield Finding(f"data {dataset}", "ok", str(state))


def weights(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """One line for each published file that is needed, there or not, and for each list that is not there."""
    runs = specs(workspace, request)
    for file in {file: None for spec in runs for file in needed_weights(workspace, spec)}:
        if file.path.is_file():
            yield Finding("weights", "ok", f"{file.name} in {file.path.parent}")
    for lack, count in lacking(workspace, runs).items():
        yield Finding(lack.kind, "wrong", f"not there: {lack.what}; {count} runs cannot run here", lack.cure)
