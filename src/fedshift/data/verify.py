"""Verify: compare a raw tree with its manifest and with published facts; count its duplicates."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_json, read_whole, sha256, sha256_file, write_json
from fedshift.common.registry import get
from fedshift.data.dataset import Dataset
from fedshift.data.lists import REFERENCE, own_lists, read_lists, read_table, write_table
from fedshift.data.plots import plot_counts
from fedshift.data.tree import below
from fedshift.storage.workspace import Workspace

CHECKOUT = Path(__file__).parents[3]
LEVELS = 4  # domain, split, class, image
NAMED = 20  # names that a message lists one by one
Files = Mapping[str, tuple[int, str]]  # path -> size in bytes, SHA-256
SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "crossval", "holdout"}
)


def verify(workspace: Workspace, name: str, release: str = "original") -> Path:
    """Compare every file with the manifest; return the stamp data/raw/<dataset>/<release>.verified.json.

    The stamp contains counts and byte-identical files; a plot of the counts is next to it. If the manifest is
    the user's own, the published names or counts must also match, unless it was written with `accept`. Raises
    FedshiftError that names missing, surplus and corrupt files; there is no stamp then.
    """
    dataset: Dataset = get("datasets", name)()
    raw = workspace.raw(name, release)
    stamp = stamp_path(workspace, name, release)
    stamp.unlink(missing_ok=True)
    declared = manifest(workspace, name, release)
    wanted, actual = _listed(declared), tabulate(dataset, raw)
    if tree_hash(wanted, raw) != declared["hash"]:
        what = "does not match the hash in its manifest, or the lists next to the tree were changed"
        raise FedshiftError(declared["list"], what, f"Restore these files, or {_take_as_is(name, release)}")
    problems = differences(wanted, actual)
    if problems:
        instead = f"fetch it again: remove {raw}, then: fedshift fetch {name} --release {release}"
        if dataset.release(release).manifest is None:
            instead = _take_as_is(name, release)
        what = "\n  ".join([f"differs from its manifest ({declared['files']:,} files):", *problems])
        raise FedshiftError(raw, what, f"Fix these files, or {instead}")
    if not declared.get("accepted") and (problems := unpublished(dataset, raw, actual)):
        what = "\n  ".join(["is not what was published:", *problems])
        raise FedshiftError(raw, what, f"Fix the tree, or {_take_as_is(name, release)}")
    facts = {key: declared[key] for key in ("dataset", "release", "files", "bytes", "hash", "counts")}
    plot_counts(facts["counts"], f"{name} {release}", stamp.with_suffix(".png"))
    write_json(stamp, {**facts, "accepted": bool(declared.get("accepted")), "duplicates": duplicates(actual)})
    return stamp


def verified(workspace: Workspace, name: str, release: str) -> Path:
    """The stamp of a tree, which is verified now if it or its manifest has changed since."""
    stamp, raw = stamp_path(workspace, name, release), workspace.raw(name, release)
    paths = [raw, *entries(raw)] if raw.exists() else []
    with contextlib.suppress(FileNotFoundError):  # never made, or just removed by another process
        made = stamp.stat().st_ctime_ns
        touched = ((path if path.exists() else path.parent).stat().st_ctime_ns for path in paths)
        if stamped(workspace, name, release) is not None and all(time < made for time in touched):
            return stamp
    return verify(workspace, name, release)


def stamped(workspace: Workspace, name: str, release: str) -> dict[str, Any] | None:
    """The manifest by which the tree was verified last; None if it never was, or the manifest has changed.

    Raises FedshiftError if there is no manifest.
    """
    stamp, present = stamp_path(workspace, name, release), manifest(workspace, name, release)
    return present if (read_whole(stamp) or {}).get("hash") == present["hash"] else None


def entries(raw: Path) -> list[Path]:
    """Visible folders and files of a tree, those in the class folders last."""
    return [path for depth in range(1, LEVELS + 1) for path in below(raw, depth)]


def as_listed(workspace: Workspace, name: str, release: str) -> None:
    """Raise FedshiftError if names or sizes in the user's own tree differ from its manifest."""
    dataset: Dataset = get("datasets", name)()
    if dataset.release(release).manifest is not None:
        return
    raw, declared = workspace.raw(name, release), manifest(workspace, name, release)
    was = {path: size for path, (size, _) in _listed(declared).items()}
    files = dataset.files(raw).items()  # an image that is not a separate file has the listed size
    now = {path: file.stat().st_size if file.is_file() else was.get(path) for path, file in files}
    if changed := [path for path in was.keys() | now.keys() if was.get(path) != now.get(path)]:
        what = f"has changed since its files were listed: {min(changed)}"
        what += f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
        cure = f"Restore the tree, fetch it as another release, or {_take_as_is(name, release)}"
        raise FedshiftError(raw, what, cure)


def _take_as_is(name: str, release: str) -> str:
    return f"take the tree as it is: fedshift verify {name} --release {release} --write-manifest"


def stamp_path(workspace: Workspace, name: str, release: str) -> Path:
    """Path of the stamp of a verified tree: next to the tree, so that a linked tree does not change."""
    raw = workspace.raw(name, release)
    return raw.with_name(f"{raw.name}.verified.json")


def manifest_path(workspace: Workspace, name: str, release: str) -> Path:
    """reference/datasets/<file> of the project; next to the tree if the release is the user's own."""
    file = get("datasets", name)().release(release).manifest
    raw = workspace.raw(name, release)
    return workspace.reference / "datasets" / file if file else raw.with_name(f"{raw.name}.manifest.json")


def manifest(workspace: Workspace, name: str, release: str) -> dict[str, Any]:
    """dataset, release, files, bytes, hash, counts {domain: {class: n}}, list (path of the table of files).

    A workspace outside the project uses the project's manifests.
    """
    own = manifest_path(workspace, name, release)
    path = own if own.exists() else CHECKOUT / "reference" / "datasets" / own.name
    facts = read_json(path, f"Restore it, or remove it and {_take_as_is(name, release)}")
    if facts is None:
        raise FedshiftError(own, "no such manifest", f"Run: fedshift fetch {name} --release {release}")
    return {**facts, "list": path.with_suffix(".csv.gz")}


def write_manifest(workspace: Workspace, name: str, release: str = "original", accept: bool = False) -> Path:
    """Write the manifest and its table of files (path, size, sha256) from the current tree.

    `accept`: accept the tree although its published counts differ.
    """
    dataset: Dataset = get("datasets", name)()
    raw = workspace.raw(name, release)
    index, files = dataset.index(raw), tabulate(dataset, raw)
    path = manifest_path(workspace, name, release)
    rows = ((path, *facts) for path, facts in files.items())
    write_table(path.with_suffix(".csv.gz"), ("path", "size", "sha256"), rows)
    domains, classes = dataset.domains_and_classes(raw)
    counts = Counter(zip(index["domain"], index["class"], strict=True))
    facts: dict[str, Any] = {"dataset": name, "release": release, "hash": tree_hash(files, raw)}
    facts |= {"files": len(files), "bytes": sum(size for size, _ in files.values())}
    facts["counts"] = {domain: {label: counts[domain, label] for label in classes} for domain in domains}
    if accept and dataset.release(release).manifest is None:
        facts["accepted"] = True
    write_json(path, facts)
    return path


def count_lines(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each domain of a manifest's `counts`: its images by class, or a summary of many classes.

    A warning follows if domains, or classes, are named like splits.
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
    for kind, names in (("domains", [*counts]), ("classes", [*next(iter(counts.values()), {})])):
        if found := [name for name in names if name.casefold() in SPLITS]:
            what = f"warning: {kind} that are named like splits: {', '.join(found)}"
            lines.append(f"{what}. A tree is domain/class/image; fedshift splits it itself")
    return lines


def _listed(declared: dict[str, Any]) -> Files:
    cure = f"Restore it, or {_take_as_is(declared['dataset'], declared['release'])}"
    rows = read_table(declared["list"], {"path": "str", "size": "int64", "sha256": "str"}, cure)
    return {path: (size, content) for path, size, content in rows}


def differences(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """Lines that name missing, surplus and corrupt files, and count them by domain and class."""
    kinds = {
        "missing": wanted.keys() - actual.keys(),
        "surplus": actual.keys() - wanted.keys(),
        "corrupt": {path for path in wanted.keys() & actual.keys() if wanted[path] != actual[path]},
    }
    lines = []
    for kind, paths in ((kind, sorted(paths)) for kind, paths in kinds.items() if paths):
        cells = Counter(path.rpartition("/")[0] for path in paths)
        lines.append(f"{len(paths):,} {kind}: " + ", ".join(f"{cell} {n}" for cell, n in cells.items()))
        lines += [f"  {path}" for path in paths[:NAMED]]
        lines += [f"  ... and {len(paths) - NAMED:,} more"] if len(paths) > NAMED else []
    return lines


def unpublished(dataset: Dataset, raw: Path, actual: Files) -> list[str]:
    """Lines on how the tree differs from published names or, without these, from counts per domain."""
    facts = dataset.facts(raw)
    if facts.complete and facts.lists and not own_lists(raw).exists():
        return differences(dict.fromkeys(read_lists(REFERENCE / facts.lists)), dict.fromkeys(actual))
    counts = Counter(path.partition("/")[0] for path in actual)
    published = facts.counts or {}
    wrong = [domain for domain, number in published.items() if counts[domain] != number]
    return [f"{domain}: {counts[domain]:,} images, {published[domain]:,} were published" for domain in wrong]


def tabulate(dataset: Dataset, raw: Path) -> Files:
    """Size and hash of every image, sorted by path."""
    paths = sorted(dataset.paths(raw))

    def facts(path: str) -> tuple[int, str]:
        content = dataset.content(raw, path)
        return len(content), sha256(content)

    with ThreadPoolExecutor() as pool:
        return dict(zip(paths, pool.map(facts, paths), strict=True))


def tree_hash(files: Files, raw: Path) -> str:
    """`hash` of a manifest: SHA-256 over lines `path sha256` by path, and over the user's lists, if any."""
    content = sha256("".join(f"{path} {content}\n" for path, (_, content) in sorted(files.items())))
    own = own_lists(raw)
    return sha256(f"{content} {sha256_file(own)}") if own.exists() else content


def duplicates(files: Files) -> dict[str, Any]:
    """Byte-identical files: `groups`, `surplus` (all but one of each) and `files`, the paths of every group.

    `domains`: groups with files in several domains; `classes`: groups with files in several classes, whose
    labels contradict each other.
    """
    by_content: dict[str, list[str]] = defaultdict(list)
    for path, (_, content) in files.items():
        by_content[content].append(path)
    groups = sorted(sorted(paths) for paths in by_content.values() if len(paths) > 1)
    domains, classes = (
        sum(len({path.split("/")[level] for path in paths}) > 1 for paths in groups) for level in (0, 1)
    )
    found = {"groups": len(groups), "surplus": sum(map(len, groups)) - len(groups)}
    return {**found, "domains": domains, "classes": classes, "files": groups}
