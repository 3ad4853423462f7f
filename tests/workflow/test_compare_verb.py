"""`fedshift compare` on a tree of the user's own, with real snakemake: stopped in every way, then to its table."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data.conftest import plant
from tests.workflow.checkout import REPOSITORY, Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(2400)]
ROUNDS = "150"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("tree") / "clinics", ("a", "b", "c"), ("ill", "well"), each=20)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("checkout")
    made = Checkout.made(root, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    (made.root / "experiments" / "unified").mkdir()
    everybody = "experiments/unified/pacs.yaml"
    shutil.copy(REPOSITORY / everybody, made.root / everybody)
    return made


def asked(tree: Path, methods: str, rounds: str) -> list[str]:
    return ["compare", "--data", f"folder:{tree}", "--methods", methods, "--seeds", "0", "--rounds", rounds]


def training(checkout: Checkout, since: float) -> bool:
    """Whether a run has begun since; one that was killed leaves its lock."""
    taken = (checkout.root / "results" / "runs").rglob("lock.json")
    return any(path.stat().st_mtime > since for path in taken)


def living(group: int) -> bool:
    """Whether a process of the group lives; one that ended and was not waited for does not."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return any(int(number) == group and not state.startswith("Z") for number, state in rows)


def locks(checkout: Checkout) -> list[Path]:
    return [*(checkout.root / ".snakemake" / "locks").glob("*")]


@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGINT, os.killpg),  # Ctrl-C
        (signal.SIGTERM, os.kill),  # kill, systemd
        (signal.SIGHUP, os.killpg),  # a closed terminal
        (signal.SIGKILL, os.killpg),
    ],
    ids=["ctrl-c", "term", "hang-up", "kill"],
)
def test_it_leaves_no_lock_and_no_process(
    checkout: Checkout, tree: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    """And the same command resumes: the next case begins where this one ended."""
    with checkout.verb(*asked(tree, "fedavg,fedbn", ROUNDS)) as process:
        begun = time.time()
        while not training(checkout, begun):
            assert process.poll() is None and time.time() < begun + 600, process.communicate()[0][-4000:]
            time.sleep(0.1)
        time.sleep(1)
        send(process.pid, number)
        output = process.communicate()[0][-4000:]
        assert process.returncode not in (0, None), output
        assert not living(process.pid), output
    assert bool(locks(checkout)) == (number == signal.SIGKILL) and "LockException" not in output, output


def test_it_ends_with_the_table(checkout: Checkout, tree: Path) -> None:
    with checkout.verb(*asked(tree, "fedavg,fedbn", ROUNDS)) as process:
        output = process.communicate()[0]
    assert process.returncode == 0, output[-4000:]
    assert "Removed the locks of a Snakemake that was killed." in output
    assert "6 of 6 runs, fed" in output  # runs that finished, as they do
    table = checkout.root / "results" / "tables" / "compare" / "clinics" / "table.md"
    assert "| fedbn" in table.read_text() and "\nmethod  id" in output and "\nfedbn " in output
    assert (
        "distinguishable" in output
        and (checkout.root / "results/report/compare/clinics/index.html").is_file()
    )
    assert "fedshift status compare/clinics --runs" in output
    assert not locks(checkout)
