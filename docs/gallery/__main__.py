"""The pictures of docs/figures.md, made anew: plays the experiments of this folder with snakemake in a project of their own, and
keeps the pictures that pictures.yaml names as docs/images/gallery/<experiment>/<file>.png. Some minutes on two cores.

PYTHONPATH=src:. python docs/gallery [EXPERIMENT ...]

The project stays below build/gallery: the second time, after a change of a figure, only drawing is done again.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import yaml
from PIL import Image

from tests.mutants.score import commit, machine
from tests.workflow.checkout import COPIED, REPOSITORY, Checkout

HERE = Path(__file__).parent
IMAGES = HERE.parent / "images" / "gallery"
PROJECT = REPOSITORY / "build" / "gallery" / "project"
WORDS = ("pictures", "mended", "planted")  # no experiments: what docs/figures.md says
COLOURS = 255  # of a picture's palette: a third of the bytes


def main(chosen: Sequence[str]) -> None:
    every = [path.stem for path in sorted(HERE.glob("*.yaml")) if path.stem not in WORDS]
    if unknown := {*chosen} - {*every}:
        raise SystemExit(f"no experiment of the gallery: {', '.join(unknown)}; there are {', '.join(every)}")
    begin, played_by = time.monotonic(), commit(REPOSITORY)
    names = [*chosen] or every
    checkout = _project(every, names)
    for name in names:
        if "tune" in yaml.safe_load((HERE / f"{name}.yaml").read_text()):
            checkout.run("--config", f"experiments=[{name}.tuning]")
            checkout.python("-m", "fedshift", "tune", name)
    played = checkout.snakemake(profile="profiles/local")
    if played.returncode:
        raise SystemExit(played.stdout)
    if not chosen:
        shutil.rmtree(IMAGES, ignore_errors=True)
    for picture in yaml.safe_load((HERE / "pictures.yaml").read_text()):
        if picture.partition("/")[0] in names:
            _keep(checkout.root / "results" / "figures" / f"{picture}.png", IMAGES / f"{picture}.png")
    if not chosen:
        (HERE / "made.json").write_text(json.dumps({"commit": played_by, "machine": machine()}) + "\n")
    page = checkout.root / "results" / "report"
    print(f"{time.monotonic() - begin:.0f} s; docs/figures.md shows the pictures, {page} has the page")


def _project(every: Sequence[str], names: Sequence[str]) -> Checkout:
    """The present code in the project folder, with the results that are there."""
    for name in (*COPIED, "experiments"):
        path = PROJECT / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    texts = {name: (HERE / f"{name}.yaml").read_text() for name in every}
    return Checkout.made(PROJECT, texts, f"experiments: {[*names]}\n")


def _keep(source: Path, goal: Path) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    Image.open(source).convert("RGB").quantize(COLOURS).save(goal, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
