"""Files of the user's own that are found by name, and what is wrong with some."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only

START = '"""Mine: my own."""\n\nfrom fedshift.federation.method import Method\n\n\n'
BROKEN = {
    "zz_a": ('"""Mine', "methods/zz_a.py:1: SyntaxError"),
    "zz_b": (START + "import nothing_such\n", "zz_b.py:6: ModuleNotFoundError"),
    "zz_c": (START + "class Mine(Method):\n    mu = 1\n", "zz_c.py: no class has name = 'zz_c'"),
    "zz_d": (
        START + "class Mine(Method):\n    name = 'zz_d'\n\n    class Params:\n        mu = 1\n",
        "Mine.Params is not a dataclass",
    ),
    "zz_e": (
        START + "class Mine(Method):\n    name = 'zz_e'\n\n    def gradient(self, C, g):\n        pass\n",
        "own.methods.zz_e.Mine: 'gradient' is not a hook",
    ),
}


def test_a_broken_method_is_listed_with_what_is_wrong_and_a_sound_one_as_it_is(tmp_path: Path) -> None:
    """Files of the user's own."""
    (tmp_path / "own" / "methods").mkdir(parents=True)
    sound = START + "class Mine(Method):\n    name = 'zz_sound'\n"
    for name, text in {"zz_sound": sound, **{name: text for name, (text, _) in BROKEN.items()}}.items():
        (tmp_path / "own" / "methods" / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "fedshift", "--root", str(tmp_path), "list", "methods"]
    told = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    assert "  fedavg " in told
    assert ["zz_sound", "Mine:", "my", "own."] in [line.split() for line in told.splitlines()]
    for name, (_, said) in BROKEN.items():
        assert said in told, name


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


def test_a_module_that_an_own_method_imports_is_part_of_the_plans_key(tmp_path: Path) -> None:
    (tmp_path / "own" / "tests").mkdir(parents=True)
    code = "from pathlib import Path; from fedshift.common import registry; registry.use(Path.cwd()); "
    keys = set()
    for file in ("losses.py", "tests/test_losses.py"):
        (tmp_path / "own" / file).write_text("x = 1\n")
        found = "print(*[path.name for path in registry.plugin_sources() if 'own' in path.parts])"
        command = [sys.executable, "-c", code + found]
        keys.add(subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=True).stdout)
    assert keys == {"losses.py\n"}
