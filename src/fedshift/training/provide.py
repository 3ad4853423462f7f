"""Provide the requirements of a run before it is trained: images, partition, published weights."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from fedshift.common.errors import Damaged, FedshiftError
from fedshift.common.files import locked
from fedshift.common.registry import get
from fedshift.data.fetch import fetch
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index, load_prepared, prepare, prepared_facts, prepared_hash
from fedshift.data.verify import as_listed
from fedshift.planning.lacking import needed_weights
from fedshift.spec import Division, RunSpec
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.weights import fetch_weights
from fedshift.storage.workspace import Workspace


def provide(
    workspace: Workspace, spec: RunSpec, tree: Path | None = None, say: Callable[[str], None] = print
) -> None:
    """Fetch, verify, decode and partition the images of a resolved spec, and fetch its published weights.

    Existing files do not change. tree: the user's own folder for the data set's release. Raises
    FedshiftError, with instructions on which files to put where, for files without a public address.
    """
    images(workspace, spec, tree, say)
    divide(workspace, spec)
    lacking = [file for file in needed_weights(workspace, spec) if not file.path.is_file()]
    brought = {file.owner for file in lacking if not file.address}  # files of the user's own
    if owners := [file.owner for file in lacking if file.owner not in brought]:
        fetch_weights(dict.fromkeys(owners), say=say)


def trained_on(workspace: Workspace, spec: RunSpec, *runs: RunDirectory) -> None:
    """Raise FedshiftError if decoded images are not those of the user's tree, or of finished `runs`."""
    folder = workspace.prepared(spec.data.prepared_name)
    if not folder.exists():
        return
    images(workspace, spec)
    if others := of_other_images(folder, runs):
        what = f"was trained on other images than {folder} has now"
        if more := len(others) - 1:
            what += "; so was another run" if more == 1 else f"; so were {more:,} other runs"
        cure = (
            "To train them again: fedshift gc --delete. To keep them: fetch these images as another release."
        )
        raise FedshiftError(others[0].path, what, cure)


def of_other_images(folder: Path, runs: Iterable[RunDirectory]) -> list[RunDirectory]:
    """The finished runs that were trained on other images than a folder of decoded ones has now."""
    now = prepared_hash(prepared_facts(folder))
    summaries = ((run, run.summary()) for run in runs)
    return [run for run, summary in summaries if summary and summary["hashes"].get("prepared") != now]


def remove_damaged(workspace: Workspace, spec: RunSpec) -> list[Path]:
    """Remove decoded images, rendered images and the partition of a spec if they do not match their hashes.

    Returns what was removed. Images that cannot be decoded again here stay.
    """
    from fedshift.data.load import load_rendered  # torch

    data = spec.data
    prepared = workspace.prepared(data.prepared_name)
    removed, sources = [], dict[str, str]()
    if _damaged(prepared, load_prepared):
        if get("datasets", data.dataset).embedded or workspace.raw(data.dataset, data.release).exists():
            removed.append(prepared)
    elif prepared.exists():
        index, path = load_index(prepared), workspace.partition(spec.partition_name)
        if _damaged(path, lambda path: load_partition(path, index)):
            removed.append(path)
        elif path.exists():
            content = load_partition(path, index)[1]
            sources = {"prepared": prepared_facts(prepared)["images"], "partition": content}
    if spec.rendering:
        rendered = workspace.rendered(spec.rendered_name)
        if _damaged(rendered, lambda path: load_rendered(path, sources)):
            removed.append(rendered)
    for path in removed:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return removed


def _damaged(path: Path, load: Callable[[Path], object]) -> bool:
    if not path.exists():
        return False
    try:
        load(path)
    except Damaged:
        return True
    return False


def images(
    workspace: Workspace, spec: RunSpec, tree: Path | None = None, say: Callable[[str], None] = print
) -> Path:
    """The folder of a spec's decoded images; made if it is absent.

    Raises FedshiftError as `fetch` and `prepare` do. It is also raised if the user's own tree has changed
    since its files were listed, or since they were decoded.
    """
    data = spec.data
    folder = workspace.prepared(data.prepared_name)
    raw = workspace.raw(data.dataset, data.release)
    absent = not get("datasets", data.dataset).embedded and not (folder.exists() or raw.exists())
    if tree or absent:
        fetch(workspace, data.dataset, data.release, tree or (), say=say)
    if raw.exists():
        as_listed(workspace, data.dataset, data.release)
    return prepare(workspace, data.dataset, data.release, data.prepare)


def divide(workspace: Workspace, spec: Division) -> Path:
    """The partition of a resolved spec; made if it is absent.

    If packs begin at the same time, on several machines, one makes it, and the others wait. Raises
    FedshiftError as `partition` does, and if an existing one is damaged.
    """
    path = workspace.partition(spec.partition_name)
    if path.is_file():
        return partition(workspace, spec)
    with locked(path.with_suffix(".lock"), wait=True):
        return partition(workspace, spec)
