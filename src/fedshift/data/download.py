"""Download with resume, and unpacking that stays inside its folder."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3 import Retry

from fedshift.errors import FedshiftError
from fedshift.files import sha256_file

BLOCK = 1 << 14  # what a broken connection loses at most
RETRIES = 3  # in a row without a byte gained
TIMEOUT = 30.0
RETRIED = (429, 500, 502, 503, 504)


def download(url: str, path: Path, sha256: str | None = None, pause: float = 0.5) -> None:
    """Download `url` to `path`, going on where an earlier attempt (of this call or another) stopped.

    Bytes collect in `<path>.part`. Raises FedshiftError where the server refuses, the connection keeps
    breaking (the part stays, a retry goes on from there) or the SHA-256 does not begin with `sha256` (the
    part is removed).
    """
    part = path.with_name(f"{path.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    session = requests.Session()
    retry = Retry(RETRIES, backoff_factor=pause, status_forcelist=RETRIED)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    session.mount("https://", HTTPAdapter(max_retries=retry))
    barren = 0
    while barren <= RETRIES:
        before = _size(part)
        try:
            _continue(session, url, part)
            break
        except requests.HTTPError as error:
            raise FedshiftError(url, f"the server answered {error}", "Download it by hand.") from None
        except requests.RequestException as error:
            reason = error
            barren = 0 if _size(part) > before else barren + 1
    else:
        cure = "Run the same command again to go on from here."
        raise FedshiftError(url, f"cannot be downloaded: {reason}", cure, retry=True)
    if sha256 and not (found := sha256_file(part)).startswith(sha256):
        part.unlink()
        raise FedshiftError(
            url,
            f"SHA-256 is {found}, expected {sha256}",
            "Run the same command again; it starts from zero.",
            retry=True,
        )
    part.replace(path)


def _continue(session: requests.Session, url: str, part: Path) -> None:
    """One attempt from the first byte that is lacking.

    A server that knows no ranges sends all, and so it starts anew.
    """
    have = _size(part)
    # Content-Encoding would make byte offsets meaningless
    headers = (
        {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
        if have
        else {"Accept-Encoding": "identity"}
    )
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            if answer.headers.get("Content-Range") == f"bytes */{have}":
                return
            part.unlink()
            raise requests.ConnectionError("the part on this machine is longer than the file")
        answer.raise_for_status()
        resumed = answer.status_code == requests.codes.partial_content
        length = int(answer.headers.get("Content-Length", 0))
        with (
            open(part, "ab" if resumed else "wb") as file,
            tqdm(
                total=length + have * resumed or None,
                initial=have * resumed,
                unit="B",
                unit_scale=True,
                desc=part.stem,
            ) as bar,
        ):
            for block in answer.iter_content(BLOCK):
                file.write(block)
                bar.update(len(block))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into `folder`.

    Raises FedshiftError for a damaged archive and for a member that would leave the folder.
    """
    unpacker: Callable[[Path, Path], None] = _unzip if zipfile.is_zipfile(archive) else _untar
    try:
        unpacker(archive, folder)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        reason = str(error).partition(":\n")[0]  # tarfile adds a line for every compression that it tried
        cure = "It must be a whole zip or tar archive: remove it and get it again."
        raise FedshiftError(archive, f"cannot be unpacked: {reason}", cure) from error


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise zipfile.BadZipFile(f"member '{name}' would leave the folder")
        file.extractall(folder)


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
