"""Unpack archives: files and folders alone, inside their folder, no more than the disk holds."""

import itertools
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


def is_archive(path: Path) -> bool:
    """Whether a file begins, or ends, as a zip or tar archive does."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into `folder`.

    Raises FedshiftError for an archive that is damaged, encrypted or compressed in a way that Python cannot
    read; and, before anything is unpacked, for a member that would leave the folder or is neither file nor
    folder, and for more bytes than the disk has room for or than RATIO times the archive's size.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as file:
                _bounded(archive, folder, [sum(_unzipped_size(member, folder) for member in file.infolist())])
                file.extractall(folder)
        else:
            with tarfile.open(archive) as tar:
                _bounded(archive, folder, map(_untarred_size, tar))
                tar.extractall(folder, filter="data")
    except UNREADABLE as error:
        reason = str(error).partition(":\n")[0]  # tarfile adds a line for every compression that it tried
        cure = "It must be a whole zip or tar archive: remove it and get it again, or unpack it by hand."
        raise FedshiftError(archive, f"cannot be unpacked: {reason}", cure) from error


# zipfile raises RuntimeError for an encrypted member and NotImplementedError for a compression without a name
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError)
UNREADABLE = (*BROKEN, EOFError, OSError, RuntimeError, ValueError)


def _unzipped_size(member: zipfile.ZipInfo, folder: Path) -> int:
    if not (folder / member.filename).resolve().is_relative_to(folder.resolve()):
        raise zipfile.BadZipFile(f"member '{member.filename}' would leave the folder")
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise zipfile.BadZipFile(f"member '{member.filename}' is neither file nor folder")
    return member.file_size


def _untarred_size(member: tarfile.TarInfo) -> int:
    if not (member.isfile() or member.isdir()):
        raise tarfile.TarError(f"member '{member.name}' is neither file nor folder")
    return member.size


def _bounded(archive: Path, folder: Path, sizes: Iterable[int]) -> None:
    """Raise OSError as soon as `sizes` sum up to more than the free disk, or than an honest archive holds."""
    free = shutil.disk_usage(folder if folder.exists() else folder.parent).free
    most = max(SMALL, RATIO * archive.stat().st_size)
    for size in itertools.accumulate(sizes):
        if size > free:
            raise OSError(f"it holds {size / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
        if size > most:
            raise OSError(f"it holds {size / 1e9:.1f} GB, more than {RATIO} times its own size")
