"""The runs of all printed tables: `papers.txt` has a line for each, its place below results/runs with its digest."""

from pathlib import Path

import yaml

from fedshift.common.files import write_text
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace

FILE = Path(__file__).with_name("papers.txt")
ROOT = Path(__file__).parents[2]


def papers() -> list[str]:
    """The names of all runs that the set `papers` of params.yaml stands for."""
    workspace = Workspace(ROOT)
    declared = yaml.safe_load((ROOT / "params.yaml").read_text())
    request = Request.of({**declared, "experiments": ["papers"]}, ROOT)
    cells = (cell for name in request.experiments for cell in expand(workspace, load(workspace, name)))
    return sorted({cell.spec.run_name for cell in cells})


def rewrite() -> None:
    write_text(FILE, "".join(f"{name}\n" for name in papers()))
