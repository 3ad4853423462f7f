"""The pictures of docs/figures.md, made anew: plays the experiments of this folder with snakemake in a project of their own, and
keeps the pictures that pictures.yaml names as docs/images/gallery/<experiment>/<file>.png. Some minutes on two cores.

PYTHONPATH=src:. python docs/gallery
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

import yaml
from PIL import Image

from tests.mutants.score import commit, machine
from tests.workflow.checkout import REPOSITORY, Checkout

HERE = Path(__file__).parent
IMAGES = HERE.parent / "images" / "gallery"
COLOURS = 255  # of a picture's palette: a third of the bytes


def main() -> None:
    names = [path.stem for path in sorted(HERE.glob("*.yaml")) if path.stem != "pictures"]
    begin, played_by = time.monotonic(), commit(REPOSITORY)
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: (HERE / f"{name}.yaml").read_text() for name in names}
        checkout = Checkout.made(Path(folder) / "project", texts, f"experiments: {names}\n")
        played = checkout.snakemake(profile="profiles/local")
        if played.returncode:
            raise SystemExit(played.stdout)
        shutil.rmtree(IMAGES, ignore_errors=True)
        for picture in yaml.safe_load((HERE / "pictures.yaml").read_text()):
            _keep(checkout.root / "results" / "figures" / f"{picture}.png", IMAGES / f"{picture}.png")
        made = {
            "commit": played_by,
            "machine": machine(),
            "seconds": round(time.monotonic() - begin),
        }
        (HERE / "made.json").write_text(json.dumps(made) + "\n")
        shutil.copytree(
            checkout.root / "results" / "report", REPOSITORY / "build" / "gallery", dirs_exist_ok=True
        )
    print(f"{made['seconds']} s; docs/figures.md shows the pictures, build/gallery has the report")


def _keep(source: Path, goal: Path) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    Image.open(source).convert("RGB").quantize(COLOURS).save(goal, optimize=True)


if __name__ == "__main__":
    main()
