"""Declarations from the command line: a single run (`fedshift run METHOD`), and the experiment of `fedshift
compare`.

A single run equals the run of an experiment file with the same settings. `fedshift compare` trains methods
under equal conditions on one data set and holds out each domain once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.files import dotted, sha256, write_text
from fedshift.common.registry import get, module, names
from fedshift.common.yaml_file import read, written
from fedshift.data.dataset import Address
from fedshift.experiments.expand import expand
from fedshift.experiments.load import check_name, load
from fedshift.experiments.protocols import Partial, merge, nested
from fedshift.experiments.protocols import protocol as protocol_of
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec, closed
from fedshift.storage.workspace import Workspace

NAME = "run"
PROTOCOL = "unified"
FOLDER = "compare"
EVERYBODY = "unified/pacs"  # the experiment whose rows are all methods
HEAD = "# Written by fedshift compare ({}), which replaces it unless edited."

OWN = {"seed", "data.target", "data.dataset", "data.release", "method.name"}  # keys that have an option


def spec_of(
    workspace: Workspace,
    method: str,
    data: Address,
    target: str | None = None,
    *,
    seed: int = 0,
    rounds: int | None = None,
    protocol: str = PROTOCOL,
    settings: Mapping[str, Any] | None = None,
) -> RunSpec:
    """The resolved specification of a single run.

    - target: the held-out domain, None for none
    - settings: dotted key -> value, over the protocol's and the method's presets; `preset` names one of the
      method's

    Raises FedshiftError for an unknown name, setting or value.
    """
    module("methods", method, "methods")
    declared = {
        "name": NAME,
        "title": f"{method} on {data}",
        "protocol": protocol,
        "spec": {"data": {"dataset": data.dataset, "release": data.release}},
        "methods": {method: entry_of(rounds, settings or {})},
        "axes": {"target": [target], "seed": [seed]},
    }
    try:
        (cell,) = expand(workspace, closed(Experiment, declared, "this run"))
    except FedshiftError as error:
        where = error.where.removeprefix(f"experiments/{NAME}.yaml: ")
        raise FedshiftError(where, error.what, error.cure, retry=error.retry) from None
    return cell.spec


def entry_of(rounds: int | None, settings: Mapping[str, Any]) -> Partial:
    """Settings by dotted key, nested as below an experiment's `methods`.

    Raises FedshiftError for a setting with its own option, which would silently override it.
    """
    own = {} if rounds is None else {"federation.rounds": rounds}
    for key in (OWN | own.keys()) & dict(dotted(settings)).keys():
        cure = "Set it by --data, --target, --seed (compare: --seeds), --rounds or the method's name."
        raise FedshiftError(key, "has its own option", cure)
    return nested({**own, **settings})


def write(workspace: Workspace, name: str, declared: Partial) -> Path:
    """Write experiments/<name>.yaml, over a file that an earlier call wrote.

    Raises FedshiftError for an invalid name, and if the file is another experiment or was edited.
    """
    check_name(workspace.experiments, name)
    path = workspace.experiments / f"{name}.yaml"
    if path.exists():
        if read(path) == declared:
            return path
        head, _, rest = path.read_text(encoding="utf-8").partition("\n")
        if not head.startswith(HEAD.format(sha256(rest)[:16]).removesuffix(".")):
            what = "is another experiment, or was edited since fedshift compare wrote it"
            raise FedshiftError(path, what, "Choose another --name, or remove it; its runs stay.")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = written(declared, default_flow_style=None, width=110)
    write_text(path, f"{HEAD.format(sha256(text)[:16])}\n{text}")
    return path


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
    """The content of the experiment's file. The raw images must exist, because their folders name the
    domains.

    - methods: rows, as `rows` takes them
    - targets: the domains to hold out, by default all
    - seeds, rounds: by default the protocol's

    Raises FedshiftError for an unknown method or domain, and for images of a single domain.
    """
    raw = workspace.raw(data.dataset, data.release)
    domains, _ = get("datasets", data.dataset)().domains_and_classes(raw)
    if len(domains) < 2:
        what = f"has {len(domains)} domain, and one is held out"
        raise FedshiftError(str(data), what, "Give a tree with two or more: domain/class/image.")
    held_out = [*(targets or domains)]
    for target in held_out:
        check_known("--target", "domain", target, domains)
    compared = rows(workspace, methods)
    ranked = len(held_out) > 1 and len(domains) > 2 and len(compared) > 1
    every = seeds or protocol_of(workspace, protocol).seeds or [0]
    return {
        "title": f"Methods compared on {data}",
        "protocol": protocol,
        "spec": merge(
            {"data": {"dataset": data.dataset, "release": data.release}}, entry_of(rounds, settings or {})
        ),
        "methods": compared,
        "axes": {"target": held_out, "seed": [*every]},
        "tables": {
            "summary": {"title": "Accuracy (%) averaged over held-out domains"},
            "targets": {"title": "Accuracy (%) per held-out domain", "columns": ["target"]},
        },
        "figures": ["curves", "ranks"] if ranked else ["curves"],
    }


def rows(workspace: Workspace, methods: Sequence[str]) -> dict[str, Partial | None]:
    """Row -> its settings. "all": the rows of the table of all methods, and those of plug-ins.

    Raises FedshiftError for an unknown method.
    """
    known = dict(load(workspace, EVERYBODY).methods)
    has = {(value or {}).get("method", {}).get("name", row) for row, value in known.items()}
    known |= dict.fromkeys(name for name in names("methods") if name not in has)
    for name in methods:
        if name != "all" and name not in known:
            module("methods", name, "--methods")
    return {name: known.get(name) for name in ([*known] if "all" in methods else methods)}
