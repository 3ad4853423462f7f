"""Compare: the file of an experiment in which methods are trained alike on one data set, each domain held out
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import sha256, write_text
from fedshift.common.registry import get, module, names
from fedshift.common.yaml_file import read, written
from fedshift.data.dataset import Address
from fedshift.experiments.load import load
from fedshift.experiments.load import protocol as protocol_of
from fedshift.experiments.protocols import Partial, merge
from fedshift.experiments.single import entry_of
from fedshift.storage.workspace import Workspace

FOLDER = "compare"
EVERYBODY = "unified/pacs"  # the experiment whose rows are all methods
HEAD = "# Written by fedshift compare ({}), which replaces it unless edited: docs/add-an-experiment.md.\n"


def write(workspace: Workspace, name: str, declared: Partial) -> Path:
    """Write experiments/<name>.yaml, over one that an earlier call wrote. Raises FedshiftError where it is
    another experiment, or was edited.
    """
    path = workspace.experiments / f"{name}.yaml"
    if path.exists() and read(path) == declared:
        return path
    if path.exists() and not _as_written(path):
        what = "is another experiment, or was edited since fedshift compare wrote it"
        raise FedshiftError(path, what, "Choose another --name, or remove it; its runs stay.")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = written(declared, default_flow_style=None, width=110)
    write_text(path, HEAD.format(sha256(text)[:16]) + text)
    return path


def _as_written(path: Path) -> bool:
    """Whether a file is as `write` left it: its first line has the hash of the others."""
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    return f"{head}\n" == HEAD.format(sha256(text)[:16])


def declaration(
    workspace: Workspace,
    data: Address,
    methods: Sequence[str],
    *,
    protocol: str,
    targets: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    rounds: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Partial:
    """What the experiment's file says. The raw images must be there: their folders name the domains.

    methods: rows, as `rows` takes them; targets: the domains to hold out, all where None; seeds, rounds: the
    protocol's where None
    Raises FedshiftError for an unknown method or domain, and for images of a single domain.
    """
    domains = get("datasets", data.dataset)().domains_and_classes(workspace.raw(data.dataset, data.release))[
        0
    ]
    if len(domains) < 2:
        what = f"has {len(domains)} domain, and one is held out"
        raise FedshiftError(str(data), what, "Give a tree with two or more: domain/class/image.")
    held_out = [*(targets or domains)]
    for target in held_out:
        if target not in domains:
            raise unknown("--target", "domain", target, domains)
    compared = rows(workspace, methods)
    ranked = len(held_out) > 1 and len(domains) > 2 and len(compared) > 1
    every = seeds or protocol_of(workspace, protocol).seeds or [0]
    return {
        "title": f"Methods beside each other on {data}",
        "protocol": protocol,
        "spec": merge(
            {"data": {"dataset": data.dataset, "release": data.release}}, entry_of(rounds, settings or {})
        ),
        "methods": compared,
        "axes": {"target": held_out, "seed": [*every]},
        "tables": {
            "summary": {"title": "Accuracy (%) averaged over held-out domains"},
            "targets": {
                "title": "Accuracy (%) per held-out domain",
                "columns": ["target"],
            },
        },
        "figures": ["curves", "ranks"] if ranked else ["curves"],
    }


def rows(workspace: Workspace, methods: Sequence[str]) -> dict[str, Partial | None]:
    """Row -> what differs for it. "all": the rows of the table of all methods, and a plug-in's. Raises
    FedshiftError for an unknown method.
    """
    known = dict(load(workspace, EVERYBODY).methods)
    has = {(value or {}).get("method", {}).get("name", row) for row, value in known.items()}
    known |= dict.fromkeys(name for name in names("methods") if name not in has)
    for name in methods:
        if name != "all" and name not in known:
            module("methods", name, "--methods")
    return {name: known.get(name) for name in ([*known] if "all" in methods else methods)}
