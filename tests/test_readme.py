"""Every command of README.md runs as it is written, or a shorter one in its place, with the reason."""

from pathlib import Path
from typing import NamedTuple

import pytest

from fedshift.common.registry import names
from tests.conftest import ROOT
from tests.data.conftest import plant
from tests.documents import commands, copied, play

README = commands(ROOT / "README.md")
RUNS = 2 * 3 * len(names("methods"))  # domains of the reader's tree, seeds, methods


class Instead(NamedTuple):
    """Why a command is not run, what is in its place, and a part of its output."""

    reason: str
    command: str
    writes: str = ""


NOT_RUN = {
    "git clone <address of this repository> fedshift && cd fedshift": Instead(
        "no address", "git --version", "git version"
    ),
    "make demo": Instead("minutes", "make -n demo", "fedshift run demo"),
    "fedshift compare --data folder:clinics --methods all": Instead(
        "hours",
        "fedshift compare --data folder:clinics --methods all --plan-only",
        f"compare/clinics    {RUNS}",
    ),
    "fedshift predict RUN new_images/ --csv predictions.csv": Instead(
        "the reader's run", "fedshift predict RUN clinics --csv predictions.csv || test $? = 2", "RUN"
    ),
    "fedshift fetch pacs --from /where/your/pacs/is": Instead(
        "no images", "fedshift fetch pacs --from /where/your/pacs/is || test $? = 2", "/where/your/pacs/is"
    ),
    "fedshift run hfedf/table2": Instead("days", "fedshift run hfedf/table2 -- -n", "dry-run"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, and the reader's own tree of images: two domains of two classes."""
    root = copied(tmp_path_factory.mktemp("readme"))
    plant(root / "clinics", ("day", "night"), ("ill", "well"), each=12)
    return root


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", list(dict.fromkeys(README)))
def test_it_runs(command: str, root: Path) -> None:
    instead = NOT_RUN.get(command, Instead("", command))
    done = play(root, instead.command)
    assert done.returncode == 0, done.stdout
    assert instead.writes in done.stdout, done.stdout
    assert "Traceback" not in done.stdout, done.stdout


def test_what_is_not_run_is_in_it() -> None:
    assert set(NOT_RUN) <= set(README)
    assert len(README) > 12 and len(NOT_RUN) < len(set(README)) / 2
