"""One door from a declaration to objects: parameters decide what a method declares, and nobody asks its class."""

from __future__ import annotations

import ast

import torch

from fedshift.build import method_of, model_of, rendering_of
from fedshift.spec.resolve import resolve
from fedshift.testing import toys
from tests.conftest import ROOT

SOURCES = ROOT / "src" / "fedshift"
# Who may ask the registry for a class: what builds (toys for tests, too), what checks, and what lists all published weights.
MAY = {
    "build.py",
    "cli/list.py",
    "spec/resolve.py",
    "experiments/validate.py",
    "storage/weights.py",
    "testing/toys.py",
}


def test_a_parameter_changes_what_the_method_declares() -> None:
    run = toys.spec(method={"name": "dsu", "params": {"centralized": True}})
    assert method_of(run).clients == "pooled"
    assert method_of(toys.spec(method={"name": "dsu"})).clients == "partition"
    assert method_of(run) is not method_of(run)  # a run keeps its own


def test_network_and_rendering_are_the_declared_ones() -> None:
    with torch.device("meta"):
        assert model_of(toys.spec(), 7)(torch.empty(2, 3, 32, 32)).logits.shape == (2, 7)
    assert rendering_of(toys.spec()) is None
    made = rendering_of(resolve(toys.spec(method={"name": "ccst", "params": {"styles": 2}})))
    assert made is not None and made.copies == 2


def test_nobody_else_asks_for_a_methods_class() -> None:
    calls = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "get"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value in ("methods", "renderings")
    }
    assert calls == MAY
