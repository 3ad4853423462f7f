"""Download with resume: a file gets its name when it is whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3 import Retry

from fedshift.common.errors import FedshiftError
from fedshift.common.files import cure_of, locked, read_whole, sha256_file, write_json

BLOCK = 1 << 14  # what a broken connection loses at most
RETRIES = 3  # in a row without a byte gained
TIMEOUT = 30.0
PATIENCE = 60  # seconds at most between two attempts, whatever the server asks for
RETRIED = (429, 500, 502, 503, 504)
AGAIN = "Run the same command again to go on from here."


class Other(requests.RequestException):
    """The server's file is no longer the version that the part began with."""


@dataclass
class Part:
    """The beginning of a file, in `<path>.part`; its version stands in `<path>.part.json`.

    validator: ETag or Last-Modified of the answer that began it, None where that answer had neither
    length: bytes of the whole file, None where the answer did not say
    """

    path: Path
    validator: str | None = None
    length: int | None = None

    @classmethod
    def at(cls, path: Path) -> Part:
        """The part that an earlier attempt left; removed if its version, and so how to continue it, is
        unknown.
        """
        part = cls(path.with_name(f"{path.name}.part"))
        known = read_whole(part._facts)
        if known is None:
            part.remove()
            return part
        return cls(part.path, known["validator"], known["length"])

    @property
    def _facts(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    @property
    def size(self) -> int:
        """Bytes of the part."""
        return self.path.stat().st_size if self.path.exists() else 0

    def begin(self, answer: requests.Response) -> None:
        """Note the version of an answer that holds the whole file, by which a later attempt continues it."""
        self.validator, self.length = _validator(answer), _length(answer)
        write_json(self._facts, {"validator": self.validator, "length": self.length})

    def remove(self) -> None:
        """Remove the part and its version."""
        self.path.unlink(missing_ok=True)
        self._facts.unlink(missing_ok=True)
        self.validator = self.length = None

    def finish(self, path: Path) -> None:
        """Give the part the file's name."""
        self.path.replace(path)
        self._facts.unlink()


def download(url: str, path: Path, sha256: str | None = None, pause: float = 0.5) -> None:
    """Download `url` to `path`, going on where an earlier attempt (of this call or another) stopped.

    Who asks for the same path at the same time waits. Raises FedshiftError where the server refuses or sends
    a web page, the connection keeps breaking (the part stays, a retry goes on from there) or the SHA-256 does
    not begin with `sha256` (the part is removed).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while not path.exists():
        lock = path.with_name(f"{path.name}.lock")
        with locked(lock) as mine:
            try:
                if mine and not path.exists():
                    with requests.Session() as session:
                        _download(session, url, path, sha256, pause)
            finally:
                if mine:
                    lock.unlink()


def _download(session: requests.Session, url: str, path: Path, sha256: str | None, pause: float) -> None:
    """Download while nobody else downloads to `path`."""
    part, barren = Part.at(path), 0
    retry = Retry(RETRIES, backoff_factor=pause, status_forcelist=RETRIED, retry_after_max=PATIENCE)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    session.mount("https://", HTTPAdapter(max_retries=retry))
    while barren <= RETRIES:
        before = part.size
        try:
            _continue(session, url, part)
            break
        except requests.HTTPError as error:
            raise FedshiftError(url, f"the server answered {error}", "Download it by hand.") from None
        except Other as error:
            reason: Exception = error
            part.remove()
            barren += 1
        except requests.RequestException as error:
            reason = error
            barren = 0 if part.size > before else barren + 1
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise FedshiftError(path, what, cure_of(error) or AGAIN, retry=True) from error
    else:
        raise FedshiftError(url, f"cannot be downloaded: {reason}", AGAIN, retry=True)
    if sha256 and not (actual := sha256_file(part.path)).startswith(sha256):
        part.remove()
        cure = "Run the same command again; it starts from zero."
        raise FedshiftError(url, f"SHA-256 is {actual}, expected {sha256}", cure, retry=True)
    part.finish(path)


def _continue(session: requests.Session, url: str, part: Part) -> None:
    """One attempt, from the first byte that is lacking.

    A server that knows no ranges, or has another version, sends the whole file, and the part begins anew.
    Raises Other where an answer does not continue the part.
    """
    have = part.size
    headers = {"Accept-Encoding": "identity"}  # another encoding would make byte offsets meaningless
    if have:
        headers["Range"] = f"bytes={have}-"
        if part.validator and not part.validator.startswith("W/"):
            headers["If-Range"] = part.validator
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            if _same(part, answer) and answer.headers.get("Content-Range") == f"bytes */{have}" and have:
                return
            raise Other("what lies here is not the beginning of the file there")
        answer.raise_for_status()
        if answer.status_code == requests.codes.partial_content:
            span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
            if not have or not span or int(span[1]) != have or not _same(part, answer):
                raise Other("the server sent another part of the file than was asked for")
        elif answer.status_code != requests.codes.ok:
            raise requests.HTTPError(f"{answer.status_code} {answer.reason} without a file")
        elif answer.headers.get("Content-Type", "").startswith("text/html"):
            raise requests.HTTPError("with a web page instead of the file")
        else:
            part.begin(answer)
            have = 0
        _receive(answer, part, have)
    if part.length is not None and part.size != part.length:
        raise requests.ConnectionError(f"{part.size:,} of {part.length:,} bytes arrived")


def _receive(answer: requests.Response, part: Part, have: int) -> None:
    """Write an answer's body behind the first `have` bytes, with a progress bar."""
    with (
        open(part.path, "ab" if have else "wb") as file,
        tqdm(total=part.length, initial=have, unit="B", unit_scale=True, desc=part.path.stem) as bar,
    ):
        for block in answer.iter_content(BLOCK):
            file.write(block)
            bar.update(len(block))


def _validator(answer: requests.Response) -> str | None:
    return answer.headers.get("ETag") or answer.headers.get("Last-Modified")


def _length(answer: requests.Response) -> int | None:
    """Bytes of an answer by its header; None where that is absent or no number."""
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None


def _same(part: Part, answer: requests.Response) -> bool:
    """Whether the answer to a range request is of the part's version, as far as its headers say."""
    total = answer.headers.get("Content-Range", "").rpartition("/")[2]
    if total.isdecimal() and part.length is not None and int(total) != part.length:
        return False
    return _validator(answer) in (None, part.validator)
