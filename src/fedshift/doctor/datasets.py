"""Data sets that the asked experiments train on: not there, unverified, verified, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fedshift.data.verify import manifest, stamp_path
from fedshift.doctor.finding import Finding
from fedshift.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.planning.request import Request
from fedshift.registry import get
from fedshift.workspace import Workspace


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """One line for each data set and release."""
    needed: dict[tuple[str, str], list[str]] = {}
    for name in asked.experiments:
        cells = expand(workspace.root, load(workspace.root, name))
        for images in dict.fromkeys((cell.spec.data.dataset, cell.spec.data.release) for cell in cells):
            needed.setdefault(images, []).append(name)
    for (dataset, release), users in needed.items():
        yield _dataset(workspace, dataset, release, ", ".join(users))


def _dataset(workspace: Workspace, name: str, release: str, users: str) -> Finding:
    part, raw = f"data {name}", workspace.raw(name, release)
    options = "" if release == "original" else f" --release {release}"
    prepared = sorted(path.name for path in (workspace.root / "data" / "prepared" / name).glob("*-*"))
    decoded = f"; decoded: {', '.join(prepared)}" if prepared else ""
    if get("datasets", name).embedded:
        return Finding(part, "ok", f"comes with its library{decoded}")
    if not raw.exists():
        found = f"not there{decoded}; needed by {users}"
        return Finding(part, "wrong", found, f"fedshift fetch {name}{options}")
    stamp = stamp_path(workspace, name, release)
    try:
        declared = manifest(workspace, name, release)
    except FedshiftError as error:
        return Finding(part, "wrong", error.what, error.cure)
    if not stamp.is_file() or json.loads(stamp.read_text())["hash"] != declared["hash"]:
        return Finding(part, "absent", f"there, not verified{decoded}", f"fedshift verify {name}{options}")
    return Finding(part, "ok", f"verified, {declared['files']:,} files{decoded}")
