"""Digest and fingerprint: what changes them, and what must not."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import pytest

from fedshift import identity
from fedshift.methods import fedprox
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import spec
from tests.conftest import Edit

# A snippet with one node of most kinds, and its dump: Python 3.11 to 3.14 must agree on it.
SNIPPET = '''
"""Docstring."""
import a.b as c
from . import d
@c.x(1, k=None)
class E(d.F, metaclass=c):
    """Docstring."""
    g: int = 0
    async def h(self, *i, j=..., **l) -> None:
        """Docstring."""
        async with j as m: yield
def n(o, /, p):
    """Only a docstring."""
q = [f"{r!r:>{s}} t" for r, *s in u if r not in s] + [-1.5e3, b"v", True]
match q:
    case {"w": [1, *x]} | None if (y := x): ...
lambda: (yield)
try: raise z from None
except* (A, B) as C: del C[1:2, ::3]
'''
DUMP = "38428fa6"
SCAFFOLD = "fedshift.methods.scaffold"
# Digests of old results must never change: these were computed when the first version was released.
DIGESTS = {"plain": "1583375f95e63c6f", "fedprox": "ca444604c48c31e9"}


def resolved(**blocks: Any) -> RunSpec:
    return resolve(spec(**blocks), "test")


def test_dumps_agree_between_python_versions() -> None:
    assert identity.sha256(identity.canonical_dump(ast.parse(SNIPPET)))[:8] == DUMP


def test_comments_docstrings_and_layout_leave_the_dump_alone() -> None:
    dump = identity.canonical_dump
    assert dump(ast.parse('def f(x):\n    "Says."\n    # why\n    return x+1')) == dump(
        ast.parse("def f( x ): return (x + 1)")
    )
    assert dump(ast.parse("def f(x): return x + 1")) != dump(ast.parse("def f(x): return x + 2"))
    assert dump(ast.parse("f(None)")) != dump(ast.parse("f()"))


def test_the_digest_is_frozen() -> None:
    assert resolved().run_id == DIGESTS["plain"]
    assert resolved(method={"name": "fedprox", "params": {"mu": 0.5}}, seed=3).run_id == DIGESTS["fedprox"]


def test_a_parameter_at_its_default_is_not_in_the_digest() -> None:
    named = resolved(method={"name": "fedprox", "params": {"mu": 0.01}}, evaluation={"every": 1})
    assert named.run_id == resolved(method={"name": "fedprox"}).run_id
    assert resolved(method={"name": "fedprox", "params": {"mu": 0.02}}).run_id != named.run_id


def test_an_option_added_with_a_default_changes_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resolved(method={"name": "fedprox", "params": {"mu": 0.5}}).run_id

    @dataclass(frozen=True)
    class Params(fedprox.Params):
        centred: bool = False

    monkeypatch.setattr(fedprox.FedProx, "Params", Params)
    assert resolved(method={"name": "fedprox", "params": {"mu": 0.5}}).run_id == before
    assert resolved(method={"name": "fedprox", "params": {"mu": 0.5, "centred": True}}).run_id != before


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1}, {"local": {"lr": 0.2}}, {"local": {"clip": 1.0}}, {"federation": {"rounds": 3}}, {"data": {"target": "ink"}},
        {"data": {"augment": "flip"}}, {"partition": {"fractions": [0.9, 0.1, 0.0]}}, {"evaluation": {"keep": "none"}},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_is_declared_changes_the_digest(change: dict[str, Any]) -> None:
    assert resolved(**change).run_id != resolved().run_id


def code(**blocks: Any) -> str:
    return resolved(**blocks).method_code


def code_of(method: str) -> str:
    return code(method={"name": method})


def test_the_fingerprint_is_of_the_method_and_the_model() -> None:
    codes = {name: code_of(name) for name in ("fedavg", "fedprox", "scaffold")}
    assert len({*codes.values(), code(model={"name": "hfedf_cnn"})}) == 4
    assert code(seed=5) == code(local={"lr": 0.2}) == code(data={"target": "ink"}) == codes["fedavg"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return moved / lr_sum - c", "return moved / lr_sum - c  # a comment"),
        ('"""The gradient [P] of a local step', '"""A gradient [P] of a local step'),
        ("def grad(self, C: Client, g: Tensor) -> None:", 'def grad(self, C: "Client", g) -> object:'),
        ("Slot, equation, mean\n", "Slot, equation, mean  # moved below\n\nif TYPE_CHECKING:\n    from typing import Any\n"),
        ("        average, W = mean", "        from fedshift.federation.mean import mean\n        average, W = mean"),
        ("from fedshift.federation.method import", "from fedshift.federation.averages import"),
        ("from typing import Any, Literal\n", ""),
    ],
    ids=["comment", "docstring", "annotation", "guard", "helper", "renamed", "left out"],
)  # fmt: skip
def test_what_computes_nothing_leaves_the_fingerprint_alone(edited: Edit, old: str, new: str) -> None:
    before = code_of("scaffold")
    edited(SCAFFOLD, old, new)
    assert code_of("scaffold") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return moved / lr_sum - c", "return moved / lr_sum + c"),
        ("clip_first = True", "clip_first = False"),
        ("control: Literal", "steps: Literal"),
    ],
)
def test_a_changed_equation_is_another_fingerprint_of_its_method_alone(
    edited: Edit, old: str, new: str
) -> None:
    before, others = code_of("scaffold"), code_of("fedavg")
    digest = resolved(method={"name": "scaffold"}).run_id
    edited(SCAFFOLD, old, new)
    assert code_of("scaffold") != before and code_of("fedavg") == others
    assert resolved(method={"name": "scaffold"}).run_id == digest


def test_a_changed_layer_or_rendering_is_another_fingerprint_of_what_imports_it(edited: Edit) -> None:
    """Directly, by a file that models share, or not at all."""
    models = ("hfedf_cnn", "resnet18", "vit_small")

    def codes() -> list[str]:
        return [*(code(model={"name": name}) for name in models), code_of("ccst"), code_of("fedavg")]

    for module, old, new, changed in (
        ("data.renderings.ccst", "* 255).round()", "* 255).floor()", [False, False, False, True, False]),
        ("models.layers.blocks", "x.mean((2, 3))", "x.amax((2, 3))", [True, True, False, True, True]),
    ):
        before = codes()
        edited(f"fedshift.{module}", old, new)
        assert [one != other for one, other in zip(before, codes(), strict=True)] == changed


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("federation.loop", "def cross_entropy(", "CHANGED = 1\n\n\ndef cross_entropy("),
        ("federation.server", "from torch import Tensor\n", "from torch import Tensor\n\nCHANGED = 1\n"),
        ("data.scheme", "rng.random_raw(n), kind", "-rng.random_raw(n), kind"),
        ("data.augment", "import torch\n", "import torch\n\nCHANGED = 1\n"),
    ],
)
def test_the_engine_is_not_in_the_fingerprint(edited: Edit, module: str, old: str, new: str) -> None:
    before = [code_of(name) for name in ("fedavg", "scaffold", "fdse")]
    edited(f"fedshift.{module}", old, new)
    assert [code_of(name) for name in ("fedavg", "scaffold", "fdse")] == before
