"""Unpack archives: only files and folders, inside their folder, no more than the disk holds."""

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from fedshift.common.errors import FedshiftError

RATIO = 200  # a tree of images is about as large as its archive; far more is an attack or a mistake
SMALL = 1 << 30  # bytes that any archive may hold
# zipfile raises RuntimeError for an encrypted member and NotImplementedError for a compression without a name
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError)
UNREADABLE = (*BROKEN, EOFError, OSError, RuntimeError, ValueError)
PLAIN = (0, stat.S_IFREG, stat.S_IFDIR)  # kinds of member of a zip archive; 0: it does not say


def is_archive(path: Path) -> bool:
    """Whether a file begins or ends like a zip or tar archive."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into `folder`.

    Raises FedshiftError for an archive that is damaged, encrypted or compressed in a way that Python cannot
    read. Before anything is unpacked, it also raises it for a member that would leave the folder or is
    neither file nor folder. The same holds if the content is larger than the free disk space or than RATIO
    times the archive.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as file:
                plain = {one: stat.S_IFMT(one.external_attr >> 16) in PLAIN for one in file.infolist()}
                _check(archive, folder, ((one.filename, one.file_size, plain[one]) for one in plain))
                file.extractall(folder)
        else:
            with tarfile.open(archive) as tar:
                _check(archive, folder, ((one.name, one.size, one.isfile() or one.isdir()) for one in tar))
                tar.extractall(folder, filter="data")
    except UNREADABLE as error:
        reason = str(error).partition(":\n")[0]  # tarfile adds a line for every compression that it tried
        cure = "It must be a whole zip or tar archive: remove it and get it again, or unpack it by hand."
        raise FedshiftError(archive, f"cannot be unpacked: {reason}", cure) from error


def _check(archive: Path, folder: Path, members: Iterable[tuple[str, int, bool]]) -> None:
    """Raise OSError for an archive that must not be unpacked; members: (name, size, file or folder)."""
    free = shutil.disk_usage(folder if folder.exists() else folder.parent).free
    most, total = max(SMALL, RATIO * archive.stat().st_size), 0
    for name, size, plain in members:
        total += size
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise OSError(f"member '{name}' would leave the folder")
        if not plain:
            raise OSError(f"member '{name}' is neither file nor folder")
        if total > free:
            raise OSError(f"it holds {total / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
        if total > most:
            raise OSError(f"it holds {total / 1e9:.1f} GB, more than {RATIO} times its own size")
