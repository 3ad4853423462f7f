"""Fetch: bring a data set's raw tree to data/raw/<dataset>/<release>.

The tree is downloaded, or taken from archives or a tree on this machine.
"""

import contextlib
import filecmp
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from fedshift.common.download import download
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_bytes
from fedshift.common.registry import get
from fedshift.data.archive import is_archive, unpack
from fedshift.data.dataset import Dataset, renamed
from fedshift.data.lists import WORDS, gather, lists_file, own_lists, read_lists, write_table
from fedshift.data.tree import ImageTree, LeftOut, below, left_out, note
from fedshift.data.verify import count_lines, entries, manifest, manifest_path, stamp_path, write_manifest
from fedshift.data.versions import pointer
from fedshift.storage.workspace import Workspace

Say = Callable[[str], None]
SHOWN = 20  # names that a message lists one by one
TABLES = frozenset({".csv", ".json", ".tsv", ".txt", ".xls", ".xlsx"})  # they may hold labels


def fetch(
    workspace: Workspace,
    name: str,
    release: str = "original",
    source: Path | Sequence[Path] = (),
    lists: Path | None = None,
    ignore: Sequence[str] = (),
    skip_broken: bool = False,
    say: Say = print,
    copy: bool = False,
) -> Path:
    """Make the raw tree present and return its path; an existing tree and its manifest do not change.

    - source: a tree on this machine, which is never changed, or archives to unpack
    - lists: a folder of official lists
    - ignore: patterns of files that do not belong to the tree
    - skip_broken: read every image, and leave out those that cannot be read
    - copy: copy a tree that would otherwise be linked

    Files that `ignore` and `skip_broken` leave out are noted next to the tree. The note is valid until either
    option is given again.

    Raises FedshiftError if the release has no public address, with instructions on which files to put where.
    It is also raised if folders or images are missing in a tree. Only downloaded files are left behind then.
    """
    dataset: Dataset = get("datasets", name)()
    facts = dataset.release(release)
    raw = workspace.raw(name, release)
    say(f"{name} {release}: {facts.source}\nlicence: {facts.licence}\ncite: {facts.citation}")
    if dataset.embedded:
        say("comes with its library: nothing to fetch")
        return raw
    if raw.is_symlink() and not raw.exists():  # its tree is gone
        if not (source or facts.archives):
            cure = f"Mount its disk, or: fedshift fetch {name} --release {release} --from PATH"
            raise FedshiftError(raw, f"is a link to {os.readlink(raw)}, which is not there", cure)
        raw.unlink()
    present, other = raw.exists(), bool(ignore) or skip_broken
    with _restored_after_errors(own_lists(raw), note(raw)):
        if lists is not None:
            if facts.manifest is not None or not isinstance(dataset, ImageTree):
                what = "its lists are part of the project"
                raise FedshiftError(f"{name} {release}", what, "Leave out --lists.")
            splits = gather(lists, dataset.canonical)
            write_table(own_lists(raw), ("path", "split"), sorted(splits.items()))
        if other:
            if facts.manifest is not None:
                cure = "Leave out --ignore and --skip-broken."
                raise FedshiftError(f"{name} {release}", "its files are published, each with its hash", cure)
            LeftOut(tuple(ignore)).write(raw)
        if sources := [source] if isinstance(source, Path) else list(source):
            _take(dataset, sources, raw, skip_broken, ", ".join(map(str, sources)))
        elif present:
            say(f"present: {raw}")
            _examine(dataset, raw, skip_broken)
        else:
            _download(dataset, raw, say, skip_broken)
    if raw.is_symlink() and (copy or pointer(raw).exists()):  # DVC writes through links
        _copy(raw)
    for path, reason in left_out(raw).broken.items():
        say(f"left out: {path}: {reason}")
    if facts.manifest is None:
        own = manifest_path(workspace, name, release)
        # Written again, it would accept a tree that changed meanwhile.
        keep = present and lists is None and not other and own.exists()
        say(f"manifest: {own if keep else write_manifest(workspace, name, release)}")
    if lists is not None:
        listed, there = read_lists(own_lists(raw)), {*dataset.paths(raw)}
        absent = [path for path in listed if path not in there]
        say(f"lists: {len(listed):,} images; not in the tree: {len(absent):,} {_some(absent)}")
    if dataset.open_releases:
        outside = [path for path in (*below(raw, 1), *below(raw, 2)) if path.suffix.lower() in TABLES]
        if unread := [path.relative_to(raw).as_posix() for path in outside]:
            say(f"not read: {_some(unread)}. An image's class is its folder; --lists gives splits.")
        domains, classes = dataset.domains_and_classes(raw)
        say(f"domains ({len(domains)}): {_some(domains)}; classes ({len(classes)}): {_some(classes)}")
    counts = manifest(workspace, name, release)["counts"]
    say("\n".join(["images by domain and class:", *count_lines(counts)]))
    picture = stamp_path(workspace, name, release).with_suffix(".png")
    say(f"to check them and plot these counts to {picture}: fedshift verify {name} --release {release}")
    return raw


@contextlib.contextmanager
def _restored_after_errors(*files: Path) -> Iterator[None]:
    """Give these files their present content again if the block ends with an error."""
    before = {file: file.read_bytes() if file.is_file() else None for file in files}
    try:
        yield
    except BaseException:
        for file, content in before.items():
            file.unlink(missing_ok=True) if content is None else write_bytes(file, content)
        raise


def _take(
    dataset: Dataset, sources: Sequence[Path], raw: Path, skip_broken: bool, origin: object, cure: str = ""
) -> None:
    """Link a tree, or unpack archives, and check the result; `origin`, `cure`: as in `_naming`."""
    if len(sources) > 1 and any(source.is_dir() for source in sources):
        what = "--from takes one folder, or one archive and more"
        raise FedshiftError(dataset.name, what, "Give one folder.")
    with _unpacked(sources, raw) if sources[0].is_file() else contextlib.nullcontext(sources[0]) as folder:
        with _naming(origin, cure):
            tree = dataset.root(folder).resolve()
        if raw.exists() and not same_files(raw.resolve(), tree):
            instead = renamed(dataset.name, sources[0]) if dataset.open_releases else "Remove it first."
            raise FedshiftError(raw, f"exists already and is not {origin}", instead)
        raw.parent.mkdir(parents=True, exist_ok=True)
        made = not raw.exists()
        if made and sources[0].is_file():
            tree.rename(raw)
        elif made:
            raw.symlink_to(tree, target_is_directory=True)
    with _naming(origin, cure):
        try:
            _examine(dataset, raw, skip_broken)
            dataset.index(raw)
        except FedshiftError:
            if made:
                raw.unlink() if raw.is_symlink() else shutil.rmtree(raw)
            raise


def _files(tree: Path) -> dict[Path, Path]:
    """Path in the tree -> file."""
    return {path.relative_to(tree): path for path in entries(tree) if path.is_file()}


def same_files(tree: Path, other: Path) -> bool:
    """Whether two trees have the same files; bytes are compared if modification times differ."""
    files, others = _files(tree), _files(other)
    return tree == other or (
        files.keys() == others.keys() and all(filecmp.cmp(files[name], others[name]) for name in files)
    )


def _copy(raw: Path) -> None:
    """Replace a link by a copy of its tree; links in the tree are followed."""
    tree = raw.resolve()
    with tempfile.TemporaryDirectory(dir=raw.parent, prefix=".copy-") as temporary:
        for name, path in tqdm(_files(tree).items(), desc=f"copying {tree}", unit="file", disable=None):
            target = Path(temporary) / raw.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        raw.unlink()
        (Path(temporary) / raw.name).rename(raw)


@contextlib.contextmanager
def _naming(origin: object, cure: str) -> Iterator[None]:
    """Name `origin`, which the user knows, in errors of the block, in place of a temporary folder."""
    try:
        yield
    except FedshiftError as error:
        raise FedshiftError(origin, error.what, cure or error.cure, retry=error.retry) from None


def _examine(dataset: Dataset, raw: Path, skip_broken: bool) -> None:
    """Raise FedshiftError for links that lead nowhere, and names not in UTF-8 or with a control character.

    `skip_broken`: then read every image, and leave out those that cannot be read.
    """
    problems = []
    for path in entries(raw):
        name = os.fsencode(path.relative_to(raw)).decode(errors="backslashreplace")
        if not path.exists():
            problems.append(f"link to nothing: {name}")
        if path.name.encode(errors="ignore").decode() != path.name:
            problems.append(f"name is not UTF-8: {name}")
        elif any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name):
            problems.append(f"control character in a name: {name!a}")
    if problems:
        what = "\n  ".join(["cannot be taken as it is:", *problems])
        raise FedshiftError(raw, what, "Fix these and run the same command again.")
    if not skip_broken:
        return
    broken = {}
    for image in tqdm(dataset.paths(raw), unit=" images", desc="read", disable=None):
        try:
            dataset.image(raw, image)
        except Exception as error:  # a decoder may raise anything when a file is damaged
            broken[image] = f"{type(error).__name__}: {error}"
    replace(left_out(raw), broken=broken).write(raw)


def _download(dataset: Dataset, raw: Path, say: Say, skip_broken: bool) -> None:
    """Download a release's archives and unpack them."""
    facts, by_hand = dataset.facts(raw), instructions(dataset, raw)
    if facts.listed_only and lists_file(raw, facts.lists) is None:
        raise FedshiftError(raw, "its lists are not part of the project", by_hand)
    if not facts.archives:
        raise FedshiftError(raw, "must be brought by hand", by_hand)
    loaded, archives = raw.with_name(f"{raw.name}.archives"), list[Path]()
    for archive in facts.archives:
        file = loaded / archive.url.rpartition("/")[2]
        archives.append(file)
        if file.exists():
            continue
        say(f"untested address: {archive.url}\n  (stated by {archive.stated})")
        download(archive.url, file, archive.sha256 or "", f"Or by hand:\n  {by_hand}")
        if not is_archive(file):
            file.unlink()
            cure = f"Run the same command again, or by hand:\n  {by_hand}"
            raise FedshiftError(archive.url, "sent no zip or tar archive", cure, retry=True)
    cure = f"Remove {loaded} to download it again. Or by hand:\n  {by_hand}"
    _take(dataset, archives, raw, skip_broken, loaded, cure)
    shutil.rmtree(loaded)


@contextlib.contextmanager
def _unpacked(archives: Sequence[Path], raw: Path) -> Iterator[Path]:
    """Unpack all archives into one folder, on the disk of `raw`."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=raw.parent, prefix=".extract-") as temporary:
        tree = Path(temporary) / "tree"
        tree.mkdir()  # for others, too: a temporary folder is its owner's
        for archive in archives:
            unpack(archive, tree)
        yield tree


def instructions(dataset: Dataset, raw: Path) -> str:
    """Instructions for a release that cannot be downloaded: which files to put where."""
    facts = dataset.facts(raw)
    listed = facts.listed_only and not facts.lists
    words = [level for level in getattr(dataset, "levels", ()) if level in WORDS]
    split = f" or domain/{{{','.join(words)}}}/class/image" if words else ""
    lines = [f"Source: {facts.source}.", *(f"By hand (untested): {address}" for address in facts.by_hand)]
    lines.append(f"It must hold domain/class/image{split}.")
    if not dataset.domains:
        lines.append("Each folder in it is a domain, each folder in that a class; a domain may lack a class.")
    else:
        classes = () if listed else dataset.domains_and_classes(raw)[1]
        named = f"Classes ({len(classes)}): {_some(classes)}." if classes else "Classes: as in the lists."
        lines += [f"Domains: {_some(dataset.domains)}.", named]
    command = f"fedshift fetch {dataset.name} --release {raw.name} --from PATH{' --lists FOLDER' * listed}"
    lines.append(f"Then: {command}")
    lines.append("PATH: the unpacked folder, or the archive as downloaded (several: --from for each).")
    if listed:
        layout = "<domain>_train.txt and <domain>_test.txt, lines `domain/class/file label`"
        lines.append(f"FOLDER: text files {layout}.")
        lines += ["Without --from the images are downloaded."] if facts.archives else []
    return "\n  ".join(lines)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= SHOWN else (*names[:3], "...", names[-1]))
