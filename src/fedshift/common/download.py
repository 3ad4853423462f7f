"""Download a file over HTTP."""

from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3 import Retry

from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path, sha256_file

TIMEOUT = 30.0  # seconds without a byte
# Before a server sends anything: a dead connection, or a response that requests a retry
RETRY = Retry(3, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), retry_after_max=60)


def download(url: str, path: Path, sha256: str = "", by_hand: str = "") -> None:
    """Download `url` to `path`, which appears once it is complete and its SHA-256 begins with `sha256`.

    Raises FedshiftError for an error of the server or the connection, another hash, or a full disk.

    by_hand: another way to get the file, for the message
    """
    again = f"Run the same command again. {by_hand}"
    with atomic_path(path) as temporary:
        try:
            _receive(url, temporary, path.name)
        except requests.HTTPError as error:
            cure = f"Download it by hand. {by_hand}"
            raise FedshiftError(url, f"the server answered {error}", cure) from None
        except requests.RequestException as error:
            raise FedshiftError(url, f"cannot be downloaded: {error}", again, retry=True) from None
        if not (actual := sha256_file(temporary)).startswith(sha256):
            what = f"SHA-256 is {actual}, expected {sha256}"
            raise FedshiftError(url, what, again, retry=True)


def _receive(url: str, path: Path, name: str) -> None:
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=RETRY))
        headers = {"Accept-Encoding": "identity"}  # with compression, a file's length would be unknown
        answer = session.get(url, headers=headers, stream=True, timeout=TIMEOUT)
        with answer, path.open("wb") as file:
            answer.raise_for_status()
            length = answer.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            with tqdm(total=total, unit="B", unit_scale=True, desc=name, disable=None) as bar:
                for block in answer.iter_content(1 << 16):
                    file.write(block)
                    bar.update(len(block))
