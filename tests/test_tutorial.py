"""The commands of docs/tutorial.md, one after the other, as its reader calls them."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.documents import commands, copied, play

TUTORIAL = commands(ROOT / "docs" / "tutorial.md")
NOT_RUN = ["make setup"]  # it would install the copy into the environment of the tests


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two minutes of a quiet core
def test_its_commands_run(tmp_path: Path) -> None:
    root, written = copied(tmp_path), []
    for command in TUTORIAL:
        if command not in NOT_RUN:
            done = play(root, command)
            assert done.returncode == 0 and "Traceback" not in done.stdout, f"{command}\n{done.stdout}"
            written.append(done.stdout)
    tables = [text.splitlines()[1].split()[1:3] for text in written if text.startswith("experiment")]
    counted = [(int(runs), int(finished)) for runs, finished in tables]
    # planned; trained (status); another learning rate; the old one again; with a method more
    assert counted == [(12, 0), (12, 12), (12, 0), (12, 12), (16, 12)]
    assert "fedmine" in written[-2]
    assert (root / "results" / "export" / "first" / "main.tex").is_file()


def test_what_is_not_run_is_in_it() -> None:
    assert set(NOT_RUN) <= set(TUTORIAL) and len(TUTORIAL) > 12
