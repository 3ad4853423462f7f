"""Files of the user's own that are found by name, and what is wrong with some."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only
from tests.conftest import ROOT

START = '"""Mine: my own."""\n\nfrom fedshift.federation.method import Method\n\n\n'


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, to put a method in."""
    folder = tmp_path_factory.mktemp("sources")
    shutil.copytree(ROOT / "src" / "fedshift", folder / "fedshift")
    return folder


def listed(sources: Path, text: str) -> list[str]:
    """The last lines of `fedshift list methods` with a method zz_mine.py."""
    (sources / "fedshift" / "methods" / "zz_mine.py").write_text(text)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from fedshift.cli import main; main(['list', 'methods'])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(sources)], text=True, capture_output=True, check=True
    )
    assert "  fedavg " in done.stdout
    return done.stdout.splitlines()[-2:]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"""Mine', "methods/zz_mine.py:1: SyntaxError: unterminated triple-quoted string literal"),
        (
            START + "import nothing_such\n",
            "zz_mine.py:6: ModuleNotFoundError: No module named 'nothing_such'",
        ),
        (START + "class Mine(Method):\n    mu = 1\n", "zz_mine.py: no class has name = 'zz_mine'"),
        (
            START + "class Mine(Method):\n    name = 'zz_mine'\n\n    class Params:\n        mu = 1\n",
            "Mine.Params is no dataclass",
        ),
        (
            START
            + "class Mine(Method):\n    name = 'zz_mine'\n\n    def gradient(self, C, g):\n        pass\n",
            "fedshift.methods.zz_mine.Mine: 'gradient' is no hook",
        ),
    ],
)
def test_a_broken_method_is_listed_with_what_is_wrong(sources: Path, text: str, said: str) -> None:
    *_, last = listed(sources, text)
    assert last.strip().startswith(("broken: ", "zz_mine")) and said in last


def test_a_sound_method_is_listed(sources: Path) -> None:
    assert listed(sources, START + "class Mine(Method):\n    name = 'zz_mine'\n")[-1].split() == [
        "zz_mine", "Mine:", "my", "own."
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["densenet", "vit_small"])
def test_it_has_the_entries_of_a_drawn_network(name: str) -> None:
    kind = get("models", name)
    drawn = kind(3, max(32, kind.min_px)).state_dict()
    before = torch.get_rng_state()
    with shapes_only():
        bare = kind(3, max(32, kind.min_px)).state_dict()
    assert torch.get_rng_state().equal(before)
    assert {entry: tensor.shape for entry, tensor in bare.items()} == {
        entry: tensor.shape for entry, tensor in drawn.items()
    }
    assert all(tensor.is_meta for tensor in bare.values())
