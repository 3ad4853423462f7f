"""Published weights: which files there are, where they lie, how they are got. What is in them
`fedshift.training.assemble` reads.

The name of a file of torchvision's ends with the first eight hexadecimals of its SHA-256. The whole hash is
in WHOLE where two public projects or more print the same one; of the others (vgg11_bn) these eight are
checked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedshift.common.download import download
from fedshift.common.errors import Damaged, FedshiftError, unknown
from fedshift.common.files import atomic_path, sha256_file
from fedshift.common.registry import get, names

FOLDER = "FEDSHIFT_WEIGHTS"  # environment: where the files lie, if not in torch's cache
TORCHVISION = "https://download.pytorch.org/models"
WHOLE = {
    "resnet18-f37072fd.pth": "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
    "resnet50-0676ba61.pth": "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
    "mobilenet_v2-b0353104.pth": "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
    "densenet121-a639ec97.pth": "a639ec97d7c33b07ae66f0b5fb7d0192f95a3b11b7576c66c0126c2a727c4395",
}


class Startable(Protocol):
    """A network's class, as far as its published starts go."""

    name: str
    weights: Mapping[str, str]  # `init` -> published file


@dataclass(frozen=True)
class WeightsFile:
    """`name` in the folder of weights, for `owner`: the model or rendering that reads it.

    address: where it is published, "" for a file of the user's own; sha256: whole, or its beginning; instead:
        what to do without it.
    """

    owner: str
    name: str
    address: str
    sha256: str
    instead: str

    @property
    def path(self) -> Path:
        """Where it lies or should lie."""
        import torch

        folder = os.environ.get(FOLDER)
        return (Path(folder) if folder else Path(torch.hub.get_dir()) / "checkpoints") / self.name

    @property
    def cure(self) -> str:
        """How to get it."""
        if self.address:
            return f"fedshift fetch weights {self.owner}"
        return f"put the file with SHA-256 {self.sha256} there (its folder: {FOLDER}, else torch's cache)"

    def require(self) -> None:
        """Raise FedshiftError, which no retry mends, where the file is absent."""
        if not self.path.is_file():
            what = f"the published weights of {self.owner} are not there: it cannot run here"
            raise FedshiftError(self.path, what, f"To get them: {self.cure}. Without them {self.instead}")

    def check(self) -> str:
        """The SHA-256 of the file. Raises FedshiftError where it is absent, Damaged where it is another."""
        self.require()
        actual = sha256_file(self.path)
        if not actual.startswith(self.sha256):
            verb = "is" if len(self.sha256) == len(actual) else "begins with"
            what = f"is another file: its SHA-256 {verb} {actual[: len(self.sha256)]}, not {self.sha256}"
            raise Damaged(self.path, what, f"Remove it, then: {self.cure}. Without it {self.instead}")
        return actual


def of_model(model: Startable, init: str) -> WeightsFile:
    """The file of a network's start. Raises FedshiftError for a network without such a start."""
    if init not in model.weights:
        raise unknown(f"model {model.name}", "init", init, ["scratch", *model.weights])
    name = model.weights[init]
    declared = WHOLE.get(name, Path(name).stem.rpartition("-")[2])
    instead = "set model.init: scratch, which is another experiment."
    return WeightsFile(model.name, name, f"{TORCHVISION}/{name}", declared, instead)


def known() -> dict[str, list[WeightsFile]]:
    """All published files by who reads them: models, then renderings."""
    models = {name: get("models", name) for name in names("models")}
    published = {name: [of_model(model, init) for init in model.weights] for name, model in models.items()}
    kinds = {name: get("renderings", name) for name in names("renderings")}
    published |= {name: list(kind(kind.Params()).weights) for name, kind in kinds.items()}
    return {name: files for name, files in published.items() if files}


def fetch_weights(
    owners: Iterable[str], sources: Sequence[Path] = (), say: Callable[[str], None] = print
) -> None:
    """Bring the published files of `owners` to their folder; a file that is present is checked and left
    alone.

    `sources`: files, known by their content, and folders, in which they are looked for by name; what is taken
    is copied, and nothing is downloaded. Raises FedshiftError for what cannot be got or is another file by
    its SHA-256; no wrong file is kept.
    """
    published = known()
    for owner in owners:
        if owner not in published:
            raise unknown("fedshift fetch weights", "name", owner, published)
    wanted = [file for owner in owners for file in published[owner]]
    if sources:
        _import(
            wanted or [file for files in published.values() for file in files], sources, bool(wanted), say
        )
        return
    for file in wanted:
        if file.path.exists():
            file.check()
            say(f"present: {file.path}")
            continue
        say(f"{file.address}\n  to {file.path}")
        try:
            download(file.address, file.path, file.sha256)
        except FedshiftError as error:
            by_hand = f"Or get the file by hand, then: {file.cure} --from FILE"
            raise FedshiftError(
                error.where, error.what, f"{error.cure} {by_hand}", retry=error.retry
            ) from None
        say(f"SHA-256 {file.check()}")


def _import(
    wanted: list[WeightsFile], sources: Sequence[Path], every: bool, say: Callable[[str], None]
) -> None:
    """Copy what of `wanted` the sources hold; `every`: all of it must be there."""
    paths = [
        path
        for source in sources
        for path in ([source / file.name for file in wanted] if source.is_dir() else [source])
        if path.is_file()
    ]
    origins: dict[WeightsFile, Path] = {}
    for path in paths:
        content = sha256_file(path)
        file = next((candidate for candidate in wanted if content.startswith(candidate.sha256)), None)
        if file is None:
            what = f"is none of {', '.join(candidate.name for candidate in wanted)}: its SHA-256 is {content}"
            raise FedshiftError(path, what, "Get it again.")
        origins.setdefault(file, path)
    if absent := [file.name for file in wanted if file not in origins and (every or not origins)]:
        cure = "Name files, or folders in which they have these names."
        raise FedshiftError(", ".join(map(str, sources)), f"no {', '.join(absent)} there", cure)
    for file, path in origins.items():
        if not file.path.exists():
            with atomic_path(file.path) as temporary:
                shutil.copyfile(path, temporary)
        say(f"{file.path}: SHA-256 {file.check()}")
