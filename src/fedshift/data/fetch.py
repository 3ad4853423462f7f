"""Fetch: bring a data set's raw tree to data/raw/<dataset>/<release>.

By download, or by a link to a tree on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedshift.data.dataset import Dataset, Release
from fedshift.data.download import download, extract
from fedshift.data.verify import write_manifest
from fedshift.errors import FedshiftError
from fedshift.registry import get
from fedshift.workspace import Workspace


def fetch(
    workspace: Workspace,
    name: str,
    release: str = "original",
    source: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Make the raw tree present and return its path; one that is there already is left alone.

    `source`: a tree on this machine, linked and never copied or changed. Raises FedshiftError that tells
    exactly what to put where if the release has no public address, and where a tree lacks folders or images.
    """
    dataset: Dataset = get("datasets", name)()
    facts = dataset.release(release)
    raw = workspace.raw(name, release)
    say(f"{name} {release}: {facts.source}\nlicence: {facts.licence}\ncite: {facts.citation}")
    if dataset.embedded:
        say("comes with its library: nothing to fetch")
        return raw
    if source is not None:
        _link(dataset, source, raw)
    elif raw.exists():
        say(f"present: {raw}")
    else:
        _download(dataset, facts, raw, say)
    if facts.manifest is None:
        say(f"manifest: {write_manifest(workspace, name, release)}")
    return raw


def _link(dataset: Dataset, source: Path, raw: Path) -> None:
    target = source.resolve()
    if raw.exists() and raw.resolve() != target:
        cure = "Remove it first, or choose another --release."
        raise FedshiftError(raw, f"exists already and is not {target}", cure)
    dataset.index(target)
    if not raw.exists():
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.unlink(missing_ok=True)  # a link whose tree is gone
        raw.symlink_to(target, target_is_directory=True)


def _download(dataset: Dataset, facts: Release, raw: Path, say: Callable[[str], None]) -> None:
    if facts.url is None:
        raise FedshiftError(raw, "no public address is known for it", instructions(dataset, facts, raw))
    if not facts.contacted:
        say(f"untested address: {facts.url}")
    archive = raw.with_name(f"{raw.name}.archive")
    try:
        download(facts.url, archive, facts.sha256)
    except FedshiftError as error:
        cure = f"{error.cure} Or by hand:\n  {instructions(dataset, facts, raw)}"
        raise FedshiftError(error.where, error.what, cure, retry=error.retry) from None
    extract(archive, facts.subfolder, raw)
    archive.unlink()


def instructions(dataset: Dataset, facts: Release, raw: Path) -> str:
    """What a user puts where when nothing can be downloaded."""
    domains = ", ".join(dataset.domains) or "one folder per domain"
    classes = ", ".join(dataset.classes) or "one folder per class"
    return (
        f"Source: {facts.source}.\n"
        f"  Unpack it anywhere as DIR/domain/class/image, domains: {domains};\n  classes: {classes}.\n"
        f"  Then: fedshift fetch {dataset.name} --release {raw.name} --from DIR"
    )
