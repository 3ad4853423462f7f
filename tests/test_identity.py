"""Digest and fingerprint: what changes them, and what must not."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from fedshift import identity
from fedshift.federation.checkpoint import save
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import finish, method, small, spec

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
DUMP = "4b25a328"
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
    assert identity.digest(resolved()) == DIGESTS["plain"]
    assert (
        identity.digest(resolved(method={"name": "fedprox", "params": {"mu": 0.5}}, seed=3))
        == DIGESTS["fedprox"]
    )


def test_a_parameter_at_its_default_is_not_in_the_digest() -> None:
    named = resolved(method={"name": "fedprox", "params": {"mu": 0.01}}, evaluation={"every": 1})
    assert identity.digest(named) == identity.digest(resolved(method={"name": "fedprox"}))
    assert identity.digest(resolved(method={"name": "fedprox", "params": {"mu": 0.02}})) != identity.digest(
        named
    )


def test_an_option_added_with_a_default_changes_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import dataclass

    from fedshift.methods import fedprox

    before = identity.digest(resolved(method={"name": "fedprox", "params": {"mu": 0.5}}))

    @dataclass(frozen=True)
    class Params(fedprox.Params):
        centred: bool = False

    monkeypatch.setattr(fedprox.FedProx, "Params", Params)
    assert identity.digest(resolved(method={"name": "fedprox", "params": {"mu": 0.5}})) == before
    assert (
        identity.digest(resolved(method={"name": "fedprox", "params": {"mu": 0.5, "centred": True}}))
        != before
    )


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1}, {"local": {"lr": 0.2}}, {"local": {"clip": 1.0}}, {"federation": {"rounds": 3}}, {"data": {"target": "ink"}},
        {"data": {"augment": "flip"}}, {"partition": {"fractions": [0.9, 0.1, 0.0]}}, {"evaluation": {"keep": "none"}},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_is_declared_changes_the_digest(change: dict[str, Any]) -> None:
    assert identity.digest(resolved(**change)) != identity.digest(resolved())


def closure(*modules: str) -> set[str]:
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in identity.DESCRIBE:
            found.add(name)
            waiting.extend(identity._imports(name))
    return found


def test_the_fingerprint_covers_what_computes_a_run() -> None:
    engine = closure(*identity.ENGINE)
    for name in (
        "loop",
        "worker",
        "client",
        "server",
        "slots",
        "progress",
        "evaluator",
        "local",
        "aggregate",
        "optimizer",
        "batches",
        "transfer",
        "state",
        "evaluate",
        "network",
        "layout",
        "rng",
    ):
        assert f"fedshift.federation.{name}" in engine
    assert {
        "fedshift.data.augment",
        "fedshift.data.prepare",
        "fedshift.data.partition",
        "fedshift.models.base",
    } <= engine
    assert not any(name.startswith("fedshift.methods.") for name in engine)
    assert "fedshift.models.layers.pooling" in closure("fedshift.models.hfedf_cnn")


def test_runs_of_two_methods_differ_in_code_only_by_their_own_files() -> None:
    codes = {name: identity.code(resolved(method={"name": name})) for name in ("fedavg", "fedprox", "fedbn")}
    assert len(set(codes.values())) == 3
    assert identity.code(resolved(seed=5)) == codes["fedavg"]


def test_weights_do_not_depend_on_modules_that_only_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The modules in DESCRIBE that a run in memory touches, replaced by nonsense: not one bit of the weights moves."""
    run = spec(local={"momentum": 0.9}, federation={"rounds": 2})
    plain = finish(small(run, method("fedbn")))
    monkeypatch.setattr("fedshift.federation.records.Records.add", lambda *args, **options: None)
    monkeypatch.setattr("fedshift.federation.loop.peak_memory_mb", lambda device: -1.0)
    monkeypatch.setattr("fedshift.federation.diagnostics.Diagnostics.by_server", lambda *args: None)
    monkeypatch.setattr("fedshift.federation.diagnostics.Diagnostics.scalars", lambda *args: {})
    monkeypatch.setattr("fedshift.federation.records.DiagnosticsTable.add", lambda *args: None)
    changed = small(run, method("fedbn"))
    for place, _ in enumerate(changed.run()):
        save(changed, tmp_path / str(place) / "c.safetensors", tmp_path / "segments", "run")
    assert changed.state.row.nan_to_num(9).equal(plain.state.row.nan_to_num(9))
    assert changed.state.own.equal(plain.state.own)
    ours, theirs = changed.evaluator.selection.best_weights, plain.evaluator.selection.best_weights
    assert {tie: set(weights) for tie, weights in ours.items()} == {
        tie: set(weights) for tie, weights in theirs.items()
    }
    for tie, weights in ours.items():
        assert all(
            tensor.nan_to_num(9).equal(theirs[tie][name].nan_to_num(9)) for name, tensor in weights.items()
        )


def test_every_module_that_describes_exists() -> None:
    for name in identity.DESCRIBE:
        assert identity._source(name) is not None, name


def test_spec_round_trips_through_json() -> None:
    one = resolved(data={"target": "ink"}, local={"clip": 1.0})
    assert parse(json.loads(json.dumps(one.model_dump(mode="json"))), "test") == one
