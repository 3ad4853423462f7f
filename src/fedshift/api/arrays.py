"""`fedshift.dataset`: make a named release of images from Python (arrays, tensors, torch Datasets)."""

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from tqdm import tqdm

from fedshift.api._arguments import Root, say
from fedshift.api._arguments import workspace as workspace_of
from fedshift.common.errors import FedshiftError
from fedshift.data import versions
from fedshift.data.dataset import Address
from fedshift.data.fetch import fetch, same_files
from fedshift.deploy.predictor import picture

FOLDER = "folder"  # the data set of trees of the user's own
WHERE = "fedshift.dataset"


def dataset(
    images: Sequence[Any] | NDArray[Any] | Mapping[str, Any],
    labels: Sequence[Any] | NDArray[Any] | None = None,
    domains: Sequence[Any] | NDArray[Any] | None = None,
    *,
    name: str,
    classes: Sequence[str] | None = None,
    root: Root = None,
) -> str:
    """Make a release of images from Python and return its address, "folder:NAME".

    The address is accepted by `run`, `load_data` and the command line (`--data folder:NAME`). The images are
    written as PNG files below data/raw/folder/NAME, listed with their hashes, and put under DVC if possible.
    From then on, the release is a data set like any folder of images. A second call with the same content
    changes nothing.

    `images`: an array [n, h, w, 3] or [n, h, w], a tensor [n, 3, h, w], or a sequence of such images, PIL
        images or paths. Values are uint8, or floats in [0, 1]. Or a torch Dataset of (image, label), or
        {domain: Dataset}.
    `labels`: a class for each image, as a name or an index into `classes`; None for Datasets.
    `domains`: the domain of each image; None for {domain: Dataset}.
    `classes`: names, for labels that are numbers. fedshift sorts classes by name.

    Raises FedshiftError if images, labels and domains differ in length, if an item is not an image, and if
    NAME is taken by other images.

    >>> images = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8)
    >>> labels, domains = np.arange(60) % 2, np.repeat(["north", "south", "west"], 20)
    >>> fedshift.dataset(images, labels, domains, name="noise", classes=["cat", "dog"])
    'folder:noise'
    """
    workspace = workspace_of(root)
    rows = list(_rows(images, labels, domains))
    if not rows:
        raise FedshiftError(WHERE, "there are no images", "Give one or more of each class.")
    named = _named([label for _, label, _ in rows], classes)
    raw = workspace.raw(FOLDER, name)
    raw.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=raw.parent, prefix=".arrays-") as temporary:
        tree = Path(temporary) / "tree"
        for place, ((image, _, domain), label) in enumerate(
            zip(tqdm(rows, "write", unit=" images", disable=None), named, strict=True)
        ):
            file = tree / _folder(domain, "domain") / _folder(label, "class") / f"{place:07d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            picture(image, place).save(file, compress_level=1)
        if raw.exists() and not same_files(raw.resolve(), tree):
            what = "exists already and contains other images"
            raise FedshiftError(raw, what, "Choose another name=, or remove it.")
        made = not raw.exists()
        if made:
            tree.rename(raw)
    fetch(workspace, FOLDER, name, say=say)
    if not versions.obstacle(workspace.root):
        say(versions.add(workspace.root, raw, made=made))
    return str(Address(FOLDER, name))


def _rows(images: Any, labels: Any, domains: Any) -> Iterable[tuple[Any, Any, Any]]:
    """(image, label, domain) of each image."""
    if isinstance(images, Mapping):
        if labels is not None or domains is not None:
            raise FedshiftError(WHERE, "a Dataset per domain names both", "Leave out labels and domains.")
        for domain, each in images.items():
            for place in range(len(each)):
                image, label = each[place]
                yield image, label, domain
        return
    if labels is None and not hasattr(images, "shape"):
        pairs = [images[place] for place in range(len(images))]
        if all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            images, labels = [image for image, _ in pairs], [label for _, label in pairs]
    for what, values in (("labels", labels), ("domains", domains)):
        if values is None:
            cure = f"Give {what}=, one for each image, or {{domain: Dataset}}."
            raise FedshiftError(WHERE, f"no {what} are given", cure)
    sizes = {"images": len(images), "labels": len(labels), "domains": len(domains)}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{count} {what}" for what, count in sizes.items())
        cure = "Give one label and one domain for each image."
        raise FedshiftError(WHERE, f"of different lengths: {counts}", cure)
    yield from zip(images, labels, domains, strict=True)


def _named(labels: Sequence[Any], classes: Sequence[str] | None) -> list[str]:
    """The class of each label. Numbers without `classes` are padded with zeros to sort as numbers."""
    plain = [label.item() if hasattr(label, "item") else label for label in labels]
    if all(isinstance(label, str) for label in plain):
        if classes is not None and (other := {*plain} - {*classes}):
            what = f"labels that are not classes: {', '.join(sorted(other)[:9])}"
            raise FedshiftError(WHERE, what, "Add them to classes.")
        return plain
    if not all(isinstance(label, int) and label >= 0 for label in plain):
        what = "labels are neither names nor whole numbers from 0"
        raise FedshiftError(WHERE, what, "Give one class per image.")
    most = max(plain)
    if classes is None:
        return [f"{label:0{len(str(most))}d}" for label in plain]
    if most >= len(classes):
        raise FedshiftError(WHERE, f"label {most} with {len(classes)} classes", "Name every class.")
    return [classes[label] for label in plain]


def _folder(name: Any, what: str) -> str:
    """The name of a domain or class, which becomes the name of a folder."""
    text = str(name.item() if hasattr(name, "item") else name)
    if not re.fullmatch(r"[^/\\\0.\s][^/\\\0]*", text):
        raise FedshiftError(WHERE, f"{what} {text!r} cannot name a folder", "Use letters, digits, - and _.")
    return text
