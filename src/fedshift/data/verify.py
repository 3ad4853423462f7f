"""Verify: compare a raw tree with its manifest - counts, bytes and the SHA-256 of every file - and with what
was published; count what it holds twice.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_json, read_whole, sha256, sha256_file, write_bytes, write_json
from fedshift.common.registry import get
from fedshift.data.dataset import Dataset
from fedshift.data.lists import REFERENCE, own_lists, read_lists
from fedshift.data.plots import plot_counts
from fedshift.data.tree import below
from fedshift.storage.workspace import Workspace

CHECKOUT = Path(__file__).parents[3]
LEVELS = 4  # domain, split, class, image
NAMED = 20  # names that a message lists one by one
SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "crossval", "holdout"}
)


def verify(workspace: Workspace, name: str, release: str = "original") -> Path:
    """Compare every file with the manifest; return the stamp data/raw/<dataset>/<release>.verified.json.

    The stamp holds counts and byte-identical files; a picture of the counts lies beside it. Where the
    manifest is the user's own, the published names or counts must hold too, unless it was written with
    `accept`. Raises FedshiftError that names what is missing, surplus or corrupt; no stamp is left then.
    """
    dataset: Dataset = get("datasets", name)()
    raw = workspace.raw(name, release)
    stamp = stamp_path(workspace, name, release)
    drawn = stamp.read_text(encoding="utf-8") if stamp.exists() and stamp.with_suffix(".png").exists() else ""
    stamp.unlink(missing_ok=True)
    declared = manifest(workspace, name, release)
    wanted, actual = _listed(declared), tabulate(dataset, raw)
    if tree_hash(wanted, raw) != declared["hash"]:
        raise FedshiftError(
            declared["list"],
            "does not match the hash in its manifest, or the lists beside the tree were changed",
            f"Restore these files, or run: fedshift verify {name} --release {release} --write-manifest",
        )
    problems = differences(wanted, actual)
    if problems:
        cure = (
            f"Mend these files, or fetch it anew: remove {raw}, then: fedshift fetch {name} --release "
            f"{release}"
        )
        if dataset.release(release).manifest is None:
            cure = f"Mend these files, or {_take_as_is(name, release)}"
        raise FedshiftError(
            raw, f"differs from its manifest ({declared['files']:,} files):\n  " + "\n  ".join(problems), cure
        )
    if not declared.get("accepted") and (problems := unpublished(dataset, raw, actual)):
        cure = f"Mend the tree, or {_take_as_is(name, release)}"
        raise FedshiftError(raw, "is not what was published:\n  " + "\n  ".join(problems), cure)
    facts = {key: declared[key] for key in ("dataset", "release", "files", "bytes", "hash", "counts")}
    if facts["hash"] not in drawn:
        plot_counts(facts["counts"], f"{name} {release}", stamp.with_suffix(".png"))
    write_json(stamp, {**facts, "accepted": bool(declared.get("accepted")), "duplicates": duplicates(actual)})
    return stamp


def verified(workspace: Workspace, name: str, release: str) -> Path:
    """The stamp of a verified tree; verifies now if there is none for the present manifest, or the tree was
    touched since.
    """
    stamp = stamp_path(workspace, name, release)
    try:
        made = stamp.stat().st_ctime_ns
    except FileNotFoundError:  # never made, or just removed by another process that verifies
        return verify(workspace, name, release)
    current = stamped(workspace, name, release) is not None and _touched(workspace.raw(name, release)) < made
    return stamp if current else verify(workspace, name, release)


def stamped(workspace: Workspace, name: str, release: str) -> dict[str, Any] | None:
    """The manifest by which the tree was verified last; None where it never was, or the manifest has changed
    since.

    Raises FedshiftError where there is no manifest.
    """
    stamp, present = stamp_path(workspace, name, release), manifest(workspace, name, release)
    return present if (read_whole(stamp) or {}).get("hash") == present["hash"] else None


def _touched(raw: Path) -> int:
    """When a folder or file of the tree last changed, in nanoseconds; 0 where there is no tree."""
    if not raw.exists():
        return 0
    return max((path if path.exists() else path.parent).stat().st_ctime_ns for path in [raw, *entries(raw)])


def entries(raw: Path) -> list[Path]:
    """Visible folders and files of a tree, those in the class folders last."""
    return [path for depth in range(1, LEVELS + 1) for path in below(raw, depth)]


def as_listed(workspace: Workspace, name: str, release: str) -> None:
    """A look at a tree of the user's own, which may change; its files are not read. Raises FedshiftError
    where names or sizes are not those of its manifest.
    """
    dataset: Dataset = get("datasets", name)()
    if dataset.release(release).manifest is not None:
        return
    raw, declared = workspace.raw(name, release), manifest(workspace, name, release)
    listed = _listed(declared)
    was = dict(zip(listed["path"], listed["size"], strict=True))
    now = {path: _size(raw / path, was.get(path)) for path in dataset.paths(raw)}
    if changed := [path for path in was.keys() | now.keys() if was.get(path) != now.get(path)]:
        what = f"has changed since its files were listed: {min(changed)}"
        what += f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
        cure = f"Restore the tree, fetch it as another release, or {_take_as_is(name, release)}"
        raise FedshiftError(raw, what, cure)


def _size(path: Path, listed: int | None) -> int | None:
    """In bytes; as listed for an image that is no file of its own."""
    return path.stat().st_size if path.is_file() else listed


def _take_as_is(name: str, release: str) -> str:
    return f"take the tree as it is: fedshift verify {name} --release {release} --write-manifest"


def stamp_path(workspace: Workspace, name: str, release: str) -> Path:
    """Where the proof of a verified tree lies: beside it, so that a linked tree stays untouched."""
    raw = workspace.raw(name, release)
    return raw.with_name(f"{raw.name}.verified.json")


def manifest_path(workspace: Workspace, name: str, release: str) -> Path:
    """reference/datasets/<file> of the project; beside the tree where the release is the user's own."""
    file = get("datasets", name)().release(release).manifest
    raw = workspace.raw(name, release)
    return workspace.reference / "datasets" / file if file else raw.with_name(f"{raw.name}.manifest.json")


def manifest(workspace: Workspace, name: str, release: str) -> dict[str, Any]:
    """dataset, release, files, bytes, hash, counts {domain: {class: n}}, list (path of the table of files).

    A workspace outside the project uses the project's own manifests.
    """
    own = manifest_path(workspace, name, release)
    path = own if own.exists() else CHECKOUT / "reference" / "datasets" / own.name
    facts = read_json(path, f"Restore it, or remove it and {_take_as_is(name, release)}")
    if facts is None:
        raise FedshiftError(own, "no such manifest", f"Run: fedshift fetch {name} --release {release}")
    return {**facts, "list": path.with_suffix(".csv.gz")}


def write_manifest(workspace: Workspace, name: str, release: str = "original", accept: bool = False) -> Path:
    """Write the manifest and its table of files (path, size, sha256) from the tree as it is now.

    `accept`: the tree is right though its published counts differ.
    """
    dataset: Dataset = get("datasets", name)()
    raw = workspace.raw(name, release)
    index, table = dataset.index(raw), tabulate(dataset, raw)
    path = manifest_path(workspace, name, release)
    write_bytes(
        path.with_suffix(".csv.gz"),
        gzip.compress(table.to_csv(index=False, lineterminator="\n").encode(), mtime=0),
    )
    domains, classes = dataset.domains_and_classes(raw)
    counts = index.groupby(["domain", "class"]).size().to_dict()
    facts: dict[str, Any] = {
        "dataset": name,
        "release": release,
        "files": len(table),
        "bytes": int(table["size"].sum()),
        "hash": tree_hash(table, raw),
        "counts": {
            domain: {label: counts.get((domain, label), 0) for label in classes} for domain in domains
        },
    }
    if accept and dataset.release(release).manifest is None:
        facts["accepted"] = True
    write_json(path, facts)
    return path


def count_lines(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each domain of a manifest's `counts`: its images by class. Of many classes the smallest and
    the largest number, and the classes without an image.
    """
    lines = []
    for domain, by_class in counts.items():
        if len(by_class) <= NAMED:
            listed = ", ".join(f"{label} {n:,}" for label, n in by_class.items())
        else:
            listed = f"{len(by_class)} classes of {min(by_class.values()):,} to {max(by_class.values()):,}"
            if empty := [label for label, n in by_class.items() if not n]:
                listed += f"; none of {', '.join(empty[:NAMED])}{', ...' * (len(empty) > NAMED)}"
        lines.append(f"  {domain}: {sum(by_class.values()):,} ({listed})")
    return lines


def _listed(declared: dict[str, Any]) -> pd.DataFrame:
    path: Path = declared["list"]
    if not path.exists():
        cure = f"Restore it, or {_take_as_is(declared['dataset'], declared['release'])}"
        raise FedshiftError(path, "no such list of files", cure)
    try:
        return pd.read_csv(path, dtype={"path": "str", "sha256": "str"}, keep_default_na=False)
    except (EOFError, OSError, ValueError, zlib.error) as error:
        cure = f"Restore it, or {_take_as_is(declared['dataset'], declared['release'])}"
        raise FedshiftError(path, f"is not whole: {error}", cure) from None


def differences(wanted: pd.DataFrame, actual: pd.DataFrame) -> list[str]:
    """Lines that name missing, surplus and corrupt files, and count them by domain and class."""
    both = wanted.merge(actual, on="path", how="outer", suffixes=("", "_actual"), indicator="where")
    kinds = {
        "missing": both[both["where"] == "left_only"],
        "surplus": both[both["where"] == "right_only"],
        "corrupt": both[(both["where"] == "both") & (both["sha256"] != both["sha256_actual"])],
    }
    lines = []
    for kind, rows in kinds.items():
        if len(rows):
            cells = rows["path"].str.rpartition("/")[0].value_counts(sort=False)
            lines.append(
                f"{len(rows):,} {kind}: " + ", ".join(f"{cell} {count}" for cell, count in cells.items())
            )
            lines += [f"  {path}" for path in rows["path"][:NAMED]]
            lines += [f"  ... and {len(rows) - NAMED:,} more"] if len(rows) > NAMED else []
    return lines


def unpublished(dataset: Dataset, raw: Path, actual: pd.DataFrame) -> list[str]:
    """Lines that tell how the tree differs from published names or, without such, from published counts per
    domain.
    """
    facts = dataset.facts(raw)
    if facts.complete and facts.lists and not own_lists(raw).exists():
        names = pd.DataFrame({"path": list(read_lists(REFERENCE / facts.lists)), "sha256": ""})
        return differences(names, actual[["path"]].assign(sha256=""))
    counts = actual["path"].str.partition("/")[0].value_counts()
    published = facts.counts or {}
    return [
        f"{domain}: {counts.get(domain, 0):,} images, {number:,} were published"
        for domain, number in published.items()
        if counts.get(domain, 0) != number
    ]


def tabulate(dataset: Dataset, raw: Path) -> pd.DataFrame:
    """One row per image: path, size in bytes, sha256; sorted by path."""
    paths = sorted(dataset.paths(raw))

    def facts(path: str) -> tuple[str, int, str]:
        content = dataset.content(raw, path)
        return path, len(content), sha256(content)

    with ThreadPoolExecutor() as pool:
        return pd.DataFrame(list(pool.map(facts, paths)), columns=["path", "size", "sha256"])


def tree_hash(table: pd.DataFrame, raw: Path) -> str:
    """What the manifest calls `hash`: the content, and the user's own lists where there are some."""
    own = own_lists(raw)
    return sha256(f"{content_hash(table)} {sha256_file(own)}") if own.exists() else content_hash(table)


def content_hash(table: pd.DataFrame) -> str:
    """SHA-256 over the lines `path sha256`, sorted by path: the identity of a tree."""
    return sha256(
        "".join(
            f"{path} {content}\n"
            for path, content in sorted(zip(table["path"], table["sha256"], strict=True))
        )
    )


def duplicates(table: pd.DataFrame) -> dict[str, Any]:
    """Byte-identical files: `groups`, `surplus` (all but one of each) and `files`, the paths of every group.

    `domains`: groups whose files lie in several domains; `classes`: groups whose files lie in several
    classes, so that their labels contradict each other.
    """
    groups = [sorted(paths) for _, paths in table.groupby("sha256", sort=False)["path"] if len(paths) > 1]
    parts = [[{path.split("/")[level] for path in paths} for level in (0, 1)] for paths in groups]
    across = (sum(len(names[level]) > 1 for names in parts) for level in (0, 1))
    counts = {"groups": len(groups), "surplus": sum(map(len, groups)) - len(groups)}
    return {**counts, **dict(zip(("domains", "classes"), across, strict=True)), "files": sorted(groups)}


def split_names(domains: Iterable[str], classes: Iterable[str]) -> list[str]:
    """A warning for domains, and one for classes, that are named like splits."""
    kinds = {"domains": domains, "classes": classes}
    found = {kind: [name for name in names if name.casefold() in SPLITS] for kind, names in kinds.items()}
    return [
        f"warning: {kind} that are named like splits: {', '.join(names)}. A tree is domain/class/image; "
        "fedshift splits it itself"
        for kind, names in found.items()
        if names
    ]
