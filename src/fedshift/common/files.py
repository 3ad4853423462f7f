"""Files and folders that are whole or absent, and hashes."""

from __future__ import annotations

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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedshift.common.errors import Damaged, FedshiftError


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


MODE = 0o666 & ~_umask()
PERMISSIONS, SPACE = "Mend its permissions", "Free space there"
CURES = {
    errno.EACCES: PERMISSIONS,
    errno.EPERM: PERMISSIONS,
    errno.EROFS: "Mount its file system for writing, or work in another folder (--root)",
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.ENOTDIR: "Remove the file that is where a folder must be",
    errno.EEXIST: "Remove the file that is where a folder must be",
}


def cure_of(error: OSError) -> str | None:
    """What to do about an error of the file system; None where nobody knows."""
    known = errno.ENOSPC if "No space left" in str(error) else error.errno  # a library's error has no number
    return f"{CURES[known]}, then run the same command again." if known in CURES else None


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; when the block ends well, it replaces `path` in one step.

    The data reach the disk before the name does; who may read the file the umask says, whatever library wrote
    it. Raises FedshiftError where the folder cannot be written or the disk is full.
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
        raise FedshiftError(
            path, what, cure_of(error) or "Mend the folder, then run the same command again.", retry=True
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove what writers that were killed have left below `folder`, in which nobody else writes now."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def built_once(folder: Path) -> Iterator[Path | None]:
    """Build a folder once, by whichever process asks first; gives None where the folder exists.

    Else gives a hidden folder beside it to build in. No other process builds there meanwhile, and when the
    block ends well one rename gives it the name. After a FedshiftError it is removed, unless trying again can
    help; what a kill or a full disk leaves is handed to the next process that asks.
    """
    part = folder.with_name(f".{folder.name}.part")
    while not folder.exists():
        part.mkdir(parents=True, exist_ok=True)
        with locked(part / "lock") as mine:
            if not mine:
                continue
            if folder.exists():
                shutil.rmtree(part)
                break
            remove_temporary(part)
            try:
                yield part
            except FedshiftError as error:
                if not error.retry:
                    shutil.rmtree(part)
                raise
            part.rename(folder)
            (folder / "lock").unlink(missing_ok=True)  # not before: who asks meanwhile would build there, too
            return
    yield None


@contextlib.contextmanager
def locked(lock: Path) -> Iterator[bool]:
    """Hold a lock that dies with the process; False where its holder has removed the file meanwhile."""
    try:
        file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:  # and its folder
        yield False
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield lock.exists() and lock.stat().st_ino == os.fstat(file).st_ino
    finally:
        os.close(file)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def read_text(path: Path) -> str:
    """The text of a file that a person wrote, on any system: UTF-8, or UTF-16 where it begins with a
    byte-order mark, which is left out; lines end in "\\n". Raises FedshiftError for any other encoding.
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
    """The rows of a CSV file with headings, read as `read_text` reads it."""
    return [*csv.DictReader(io.StringIO(read_text(path)))]


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically, keys sorted, human-readable."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path, cure: str = "Remove it; it is then made anew.") -> dict[str, Any] | None:
    """The JSON object in a file, None where there is no file. Raises Damaged with `cure` for a torn file."""
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
    """The JSON object in a file; a file that a crash of the machine tore counts as never written."""
    return read_json(path) if is_whole(path) else None


def is_whole(path: Path, end: bytes = b"}") -> bool:
    """Whether there is a file that ends as one of its format does (JSON by default): not empty, not cut off,
    not filled with zeros.
    """
    try:
        with open(path, "rb") as file:
            file.seek(-len(end) - 1, os.SEEK_END)
            return file.read().rstrip().endswith(end)
    except OSError:  # not there, or shorter
        return False


def date_today(path: Path) -> None:
    """Date a file or folder today where a wrong clock has dated it later: snakemake takes what is made of it
    for broken. A folder is dated by the file that snakemake keeps in it. What others own stays.
    """
    for dated in (path, path / ".snakemake_timestamp"):
        with contextlib.suppress(OSError):
            if dated.stat().st_mtime > time.time():
                os.utime(dated)


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces. NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(value: bytes | str) -> str:
    """Hexadecimal SHA-256 of bytes or of a text's UTF-8."""
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
