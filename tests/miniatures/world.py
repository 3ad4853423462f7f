"""A project in which every data set is digits under the data set's own names, and every protocol is small."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from fedshift.common.files import write_text
from fedshift.common.registry import get, own
from fedshift.common.yaml_file import read
from fedshift.experiments.load import available
from fedshift.storage.workspace import Workspace
from tests.miniatures import rule
from tests.workflow.checkout import REPOSITORY, Checkout

OF_NO_IMAGES = ("folder",)  # a data set whose domains only its images name
DATA_SET = '''\
"""In miniature: digits under the names of another data set."""

from dataclasses import replace

import numpy as np

from fedshift.data.datasets import _digits

IMAGES = 80  # of a domain


class Miniature(_digits.Digits):
    name = {name!r}
    domains = {domains!r}
    classes = {classes!r}
    releases = {{"original": replace(_digits.Digits.releases["original"], manifest="{name}.json")}}

    def paths(self, raw):
        _, labels = _digits._strokes()
        return [
            f"{{domain}}/{{name}}/{{number:04d}}"
            for place, domain in enumerate(self.domains)
            for label, name in enumerate(self.classes)
            for number in np.flatnonzero(labels == label)[place :: len(self.domains)][: IMAGES // len(self.classes)]
        ]

    def content(self, raw, path):
        return self._render(path).tobytes()

    def image(self, raw, path):
        return _digits.Image.fromarray(self._render(path))

    def _render(self, path):
        domain, rest = path.split("/", 1)
        kinds = [*_digits.RENDERINGS]
        return _digits._render(kinds[self.domains.index(domain) % len(kinds)] + "/" + rest)
'''


def world(root: Path) -> Checkout:
    """A copy of the checkout in miniature, with all its experiments, in an empty folder."""
    here = Workspace(REPOSITORY)
    texts = {name: yaml.safe_dump(miniature(here, name), sort_keys=False) for name in available(here)}
    checkout = Checkout.made(root, {}, "experiments: [demo]\n")
    for name, text in texts.items():
        write_text(root / "experiments" / f"{name}.yaml", text)
    reference = root / "reference"
    for path in (reference / "protocols").glob("*.yaml"):
        _replace(path, rule.protocol(read(path)))
    # Without the encoder's published weights CCST renders by colour statistics.
    protocols = sorted(path.stem for path in (reference / "protocols").glob("*.yaml"))
    ccst = {"*": {"method": {"params": {"space": "rgb"}}}}
    _replace(reference / "presets" / "ccst.yaml", dict.fromkeys(protocols, ccst))
    # Without padding FDSE's blocks leave nothing of 32 px.
    fdse = read(reference / "presets" / "fdse.yaml")
    for preset in fdse["presets"].values():
        preset["*"]["method"]["params"].pop("padding")
    _replace(reference / "presets" / "fdse.yaml", fdse)
    _replace(reference / "published.yaml", rule.published(read(reference / "published.yaml")))
    _data_sets(root)
    return checkout


def miniature(workspace: Workspace, name: str) -> dict[str, Any]:
    """The keys of an experiment's file in miniature."""
    declared = read(workspace.experiments / f"{name}.yaml")
    return rule.experiment(declared, protocol_of(workspace, declared["protocol"]), domains)


def protocol_of(workspace: Workspace, name: str) -> dict[str, Any]:
    """A protocol as its file and those beneath it say."""
    declared = read(workspace.reference / "protocols" / f"{name}.yaml")
    if base := declared.get("base"):
        below = protocol_of(workspace, base)
        return {**declared, "spec": rule.merge(below["spec"], declared["spec"])}
    return declared


def domains(dataset: str) -> tuple[str, ...]:
    return tuple(get("datasets", dataset).domains)


def _data_sets(root: Path) -> None:
    """Replace every data set of the copy, the digits among them; what the manifests say holds no more."""
    shutil.rmtree(root / "reference" / "datasets")
    folder = root / "src" / "fedshift" / "data" / "datasets"
    shutil.copy2(folder / "digits.py", folder / "_digits.py")
    for name in {*own("datasets")} - {*OF_NO_IMAGES}:
        real = get("datasets", name)
        text = DATA_SET.format(name=name, domains=tuple(real.domains), classes=tuple(real.classes[:10]))
        (folder / f"{name}.py").write_text(text)


def _replace(path: Path, content: dict[str, Any]) -> None:
    write_text(path, yaml.safe_dump(content, sort_keys=False))
