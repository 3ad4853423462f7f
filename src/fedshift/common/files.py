"""Files and folders that are complete or absent, locks, and hashes. Standard library only."""

import codecs
import contextlib
import csv
import errno
import fcntl
import hashlib
import io
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedshift.common.errors import Damaged, FedshiftError

UMASK = os.umask(0o077)  # which can be read only by a change
os.umask(UMASK)
MODE = 0o666 & ~UMASK
PATIENCE = 1.0  # seconds: a process that queries the holder has the lock for a moment
HELD = (BlockingIOError, PermissionError)  # of a local and of a remote file system
CURES = {
    errno.EROFS: "Mount its file system for writing, or work in another folder (--root)",
    errno.ENAMETOOLONG: "Choose a shorter name",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Fix its permissions"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free space there"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "Remove the file that is where a folder must be"),
}


def cure_of(error: OSError) -> str | None:
    """How to fix an error of the file system; None if it is not known."""
    known = errno.ENOSPC if "No space left" in str(error) else error.errno  # a library's error has no number
    return f"{CURES[known]}, then run the same command again." if known in CURES else None


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which is renamed to `path` in one step if the block succeeds.

    The data reach the disk before the rename. The umask determines the permissions, whatever library writes
    the file.

    Raises FedshiftError if the folder cannot be written or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(MODE)
        os.replace(temporary, path)
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        cure = cure_of(error) or "Fix the folder, then run the same command again."
        raise FedshiftError(path, what, cure, retry=True) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove the files that killed writers left below `folder`, to which no other process may be writing."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def built_once(folder: Path) -> Iterator[Path | None]:
    """Build a folder once, in the first process that needs it; yield None if the folder exists.

    Otherwise yield a hidden folder next to it to build in. No other process builds there at the same time,
    and the folder is renamed if the block succeeds. After a FedshiftError it is removed, unless a retry can
    help. The next process continues with what a kill or a full disk has left.
    """
    part = folder.with_name(f".{folder.name}.part")
    while not folder.exists():
        with locked(part / "lock", wait=True):
            if folder.exists():
                shutil.rmtree(part, ignore_errors=True)  # another process may be waiting in it
                break
            remove_temporary(part)
            try:
                yield part
            except FedshiftError as error:
                if not error.retry:
                    shutil.rmtree(part, ignore_errors=True)
                raise
            part.rename(folder)
            (folder / "lock").unlink(missing_ok=True)  # not earlier: another process would build there, too
            return
    yield None


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def read_text(path: Path) -> str:
    """The text of a file that a person wrote, on any system.

    The encoding is UTF-8, or UTF-16 if it begins with a byte-order mark, which is removed. Lines end in
    "\\n".

    Raises FedshiftError for any other encoding.
    """
    data = path.read_bytes()
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if marked else "utf-8-sig")
        if "\0" in text:
            raise ValueError("it has a null character: UTF-16 without a byte-order mark, or no text")
    except ValueError as error:
        raise FedshiftError(path, f"is not UTF-8: {error}", "Save it as UTF-8 in your editor.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file with headings, decoded by `read_text`."""
    return [*csv.DictReader(io.StringIO(read_text(path)))]


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically as readable JSON with sorted keys."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path, cure: str = "Remove it; it is then written again.") -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no file.

    Raises Damaged with `cure` for a truncated file.
    """
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"is not whole: {error}", cure) from None
    if not isinstance(value, dict):
        raise Damaged(path, "is not whole: it holds no keys", cure)
    return value


def read_whole(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None also for a file that a crash of the machine truncated."""
    return read_json(path) if is_whole(path) else None


def is_whole(path: Path, end: bytes = b"}") -> bool:
    """Whether a file ends as its format (by default JSON) requires: not empty, truncated or zero-filled."""
    try:
        with open(path, "rb") as file:
            file.seek(-len(end) - 1, os.SEEK_END)
            return file.read().rstrip().endswith(end)
    except OSError:  # not there, or shorter
        return False


def date_today(path: Path) -> None:
    """Set a modification time in the future, from a wrong clock, to the present.

    Snakemake would otherwise consider everything built from the file as invalid. For a folder, the time of
    Snakemake's timestamp file in it is changed, too. Files of other owners are left as they are.
    """
    for dated in (path, path / ".snakemake_timestamp"):
        with contextlib.suppress(OSError):
            if dated.stat().st_mtime > time.time():
                os.utime(dated)


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces. Raises ValueError for NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def dotted(tree: Mapping[str, Any], by: str = ".", prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values: {partition: {params: {d: 2}}} -> ("partition.params.d", 2).

    Empty mappings are skipped.
    """
    for key, inner in tree.items():
        if isinstance(inner, Mapping):
            yield from dotted(inner, by, f"{prefix}{key}{by}")
        else:
            yield f"{prefix}{key}", inner


def sha256(value: bytes | str) -> str:
    """Hexadecimal SHA-256 of bytes, or of a text in UTF-8."""
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock; `job`: its Slurm job."""

    host: str
    pid: int
    job: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}" + (f", Slurm job {self.job}" if self.job else "")


class Locked(FedshiftError):
    """Another process is training this run."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        cure = f"Wait for it, or stop it first. If its machine is gone: rm {path}"
        super().__init__(path.parent, f"is being trained by {holder or 'another process'}", cure, retry=True)


def this_process() -> Holder:
    """This process, as the holder of a lock."""
    return Holder(socket.gethostname(), os.getpid(), os.environ.get("SLURM_JOB_ID"))


@contextlib.contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock file `path` for the block, then remove it. Wait for another holder, or raise Locked.

    The lock is the kernel's (flock), which file servers share between nodes. It ends with its process. The
    file's content is for messages only.
    """
    if (file := hold(path, wait)) is None:
        raise Locked(path, holder(path))
    try:
        yield
    finally:
        if _is(path, file):
            path.unlink()
        os.close(file)


def hold(path: Path, wait: bool = False) -> int | None:
    """Take a lock and return its open file; closing it releases the lock.

    If another process has the lock, wait, or return None.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            with contextlib.suppress(*HELD):
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if _is(path, file):  # otherwise its holder has just removed it
                    # Truncated last: ext4 writes a file that was truncated to 0 to the disk at its close.
                    os.ftruncate(file, os.write(file, json.dumps(asdict(this_process())).encode()))
                    return file
            os.close(file)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            if isinstance(error, FileExistsError):  # of mkdir, if the folder is removed meanwhile
                dangling = any(one.is_symlink() and not one.exists() for one in path.parents)
                gone = not (dangling or path.parent.is_file())
            if gone:
                time.sleep(0.01)
                continue  # its holder has moved or removed the folder
            cure = cure_of(error) or "Mount its file system with locks (flock), or work elsewhere (--root)."
            raise FedshiftError(path, f"cannot be locked: {error.strerror}", cure, retry=True) from error
        if not wait and time.monotonic() > until:
            return None
        time.sleep(0.05)


def holder(path: Path) -> Holder | None:
    """The process that holds a lock file; None where no process does."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except HELD:
                return Holder(**json.load(file))
    except OSError:
        return None
    except (TypeError, ValueError):  # taken just now
        return Holder("another process", 0)
    return None


def _is(path: Path, file: int) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
