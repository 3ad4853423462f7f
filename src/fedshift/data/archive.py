"""Unpack archives: only inside their folder, and no more than the disk holds."""

import lzma
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path

from fedshift.common.errors import FedshiftError

# zipfile raises RuntimeError for an encrypted member and NotImplementedError for a compression without a name
UNREADABLE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError,
    EOFError, OSError, RuntimeError, ValueError,
)  # fmt: skip


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into `folder`, which exists.

    Raises FedshiftError for an archive that is damaged, encrypted or compressed in a way that Python cannot
    read. The same holds for content larger than the free disk space, and for a tar member that would leave
    the folder, or is a link or a device. `zipfile` removes parts of names that would leave the folder, and
    writes links as text.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as file:
                _check_space(sum(member.file_size for member in file.infolist()), folder)
                file.extractall(folder)
        else:
            with tarfile.open(archive) as tar:
                if links := [member.name for member in tar if not (member.isfile() or member.isdir())]:
                    raise OSError(f"member '{links[0]}' is neither file nor folder")
                _check_space(sum(member.size for member in tar.getmembers()), folder)
                tar.extractall(folder, filter="data")
    except UNREADABLE as error:
        reason = str(error).partition(":\n")[0]  # tarfile adds a line for every compression that it tried
        cure = "It must be a whole zip or tar archive: remove it and get it again, or unpack it by hand."
        raise FedshiftError(archive, f"cannot be unpacked: {reason}", cure) from error


def _check_space(size: int, folder: Path) -> None:
    if size > (free := shutil.disk_usage(folder).free):
        raise OSError(f"it holds {size / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
