"""Recorded steps train what eager ones train, bit for bit: on the CPU, by a false CUDA graph.

Like a CUDA graph it repeats operations on addresses, with every value of the host as it was when it recorded. No GPU is needed, and none is tested.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.federation.records import MEASURED
from fedshift.methods.fedprox import FedProx
from fedshift.testing.toys import diagnosed, finish, method, small, spec, tensors
from fedshift.training.device import environment
from fedshift.training.run import Machine

pytestmark = pytest.mark.slow

ADAM = {"optimizer": "adam", "lr": 1e-3}
SGD = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}
STEADY = [name for name in names("methods") if method(name).steadiness]
UNSTEADY = ["dsu", "fedfa", "mixstyle", "stablefdg"]
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("fdse", {"consistency": "code_v1"}),
    ("fdse", {"consistency": "code_head"}),
    ("fdse", {"consistency_from_round": 1, "lam": 1.0}),
    ("fedrd", {"lambda_from": "step"}),
    ("fedrd", {"lambda_from": "prev_round"}),
    ("feddg", {"released": True}),
    ("feddg", {"outer": False}),
    ("fedsr", {"squared": True}),
    ("scaffold", {"control": "steps"}),
]


class FalseGraph(TorchDispatchMode):
    """Records operations with the addresses that they touch, undoes what they wrote, and replays them."""

    replays = 0

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any]] = []
        self._known: dict[int, tuple[Tensor, Tensor | None]] = {}  # storage -> its bytes, and what they were

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        self._random = torch.get_rng_state()
        self.__enter__()

    def capture_end(self) -> None:
        self.__exit__(None, None, None)
        for content, before in self._known.values():
            if before is not None:
                content.copy_(before)
        torch.set_rng_state(self._random)  # stands for the generator of the device

    def pool(self) -> Any:
        return None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = args, kwargs or {}
        self._know(given, new=False)
        addresses = tree_map_only(Tensor, Tensor.detach, given)  # a parameter may get other ones later
        result = func(*given[0], **given[1])
        self._know(result, new=True)
        self._calls.append((func, addresses, tree_map_only(Tensor, Tensor.detach, result)))
        return result

    def _know(self, values: Any, new: bool) -> None:
        for tensor in tree_leaves(values):
            if not isinstance(tensor, Tensor):
                continue
            place = tensor.untyped_storage().data_ptr()
            if place and place not in self._known:
                content = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                self._known[place] = content, None if new else content.clone()

    @torch.no_grad()
    def replay(self) -> None:
        FalseGraph.replays += 1
        for func, (args, kwargs), result in self._calls:
            now = func(*args, **kwargs)
            for place, value in zip(tree_leaves(result), tree_leaves(now), strict=True):
                if isinstance(place, Tensor) and place.data_ptr() != value.data_ptr():
                    place.copy_(value)


def trained(hooks: Method, graph: type[FalseGraph] | None, model: str = "digits_cnn", **local: Any) -> Any:
    """State, records and diagnostics of three rounds of two epochs, with remainders, clipping and a rate that changes in each epoch."""
    schedule = {"kind": "exponential", "gamma": 0.7, "unit": "epoch"}
    settings = {"batch": 4, "epochs": 2, "clip": 0.5, "schedule": schedule, **(local or SGD)}
    run = spec(model={"name": model}, local=settings, federation={"rounds": 3})
    federation = small(run, hooks)
    federation.worker.graph = graph
    FalseGraph.replays = 0
    finish(federation)
    assert (FalseGraph.replays > 0) == (graph is not None and hooks.steadiness != "")
    return everything(federation)


def everything(federation: Federation) -> Any:
    measured = (row for row in federation.records.rows if row["stage"] not in MEASURED)
    records = [{key: value for key, value in row.items() if key != "time"} for row in measured]
    return tensors(federation), records, diagnosed(federation)


def same(one: Any, other: Any) -> bool:
    """Whether states (NaN where entries mean nothing), records and diagnostics are equal bit for bit."""
    if one[0].keys() != other[0].keys() or repr(one[1:]) != repr(other[1:]):
        return False
    return all(
        value.shape == other[0][name].shape
        and torch.equal(value.nan_to_num(7e7), other[0][name].nan_to_num(7e7))
        for name, value in one[0].items()
    )


@pytest.mark.parametrize("local", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize("name", STEADY)
def test_a_steady_method_trains_the_same(name: str, local: dict[str, Any]) -> None:
    assert same(trained(method(name), FalseGraph, **local), trained(method(name), None, **local))


@pytest.mark.parametrize(("name", "hp"), VARIANTS)
def test_so_do_its_variants(name: str, hp: dict[str, Any]) -> None:
    assert same(trained(method(name, **hp), FalseGraph), trained(method(name, **hp), None))


@pytest.mark.parametrize(
    "local",
    [{**ADAM, "optimizer_state": "persist"}, {**SGD, "batch_rule": "wrap"}, {**SGD, "precision": "bf16"}],
)
def test_so_do_other_settings(local: dict[str, Any]) -> None:
    assert same(trained(method("ditto"), FalseGraph, **local), trained(method("ditto"), None, **local))


def test_dropout_takes_the_same_samples() -> None:
    hooks = method("fedavg")
    assert same(trained(hooks, FalseGraph, "hfedf_cnn"), trained(hooks, None, "hfedf_cnn"))


@pytest.mark.parametrize("name", UNSTEADY)
def test_the_test_notices_a_method_that_is_not_steady(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trained(method(name), FalseGraph)  # eager
    eager = trained(method(name), None)
    monkeypatch.setattr(get("methods", name), "steady", "round", raising=False)
    with contextlib.suppress(FedshiftError, RuntimeError):
        assert not same(trained(method(name), FalseGraph), eager)


def test_it_notices_a_tensor_that_is_rebound(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Method, C: Client, x: Tensor, y: Tensor) -> None:
        C.tmp.pulled = getattr(C.tmp, "pulled", C.w0) * 0.9
        C.w.lerp_(C.tmp.pulled, 0.1)

    eager, recorded = method("fedprox"), method("fedprox")
    monkeypatch.setattr(FedProx, "step", step)
    assert not same(trained(recorded, FalseGraph), trained(eager, None))


def test_sampling_on_the_host_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Method, C: Client, x: Tensor, y: Tensor) -> None:
        torch.rand((), generator=C.rng)

    monkeypatch.setattr(FedProx, "step", step)
    with pytest.raises(FedshiftError, match="method fedprox: is steady, but its step samples on the host"):
        trained(method("fedprox"), FalseGraph)


def test_an_error_ends_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Method, C: Client, x: Tensor, y: Tensor) -> None:
        if C.steps > 1:
            raise ValueError("of the method")

    monkeypatch.setattr(FedProx, "step", step)
    with pytest.raises(ValueError, match="of the method"):
        trained(method("fedprox"), FalseGraph)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_graphs_are_a_gpu_s_and_requested() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    steady, unsteady = (spec(method={"name": name}) for name in ("fedavg", "stablefdg"))
    assert Machine(gpu, graph="auto").graphs(steady) and not Machine(gpu, graph="auto").graphs(unsteady)
    assert not Machine(gpu).graphs(steady) and not Machine(cpu, graph="auto").graphs(steady)
    assert (
        environment(cpu, 1, "")["graph"] == "off" and environment(cpu, 1, "", graphs=True)["graph"] == "auto"
    )


def test_who_is_steady() -> None:
    """A declaration does not outlast an override by a subclass."""

    class Silent(FedProx):
        name = "silent"

        def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
            return super().loss(C, x, y)

    class Said(Silent):
        name = "said"
        steady = "epoch"

    assert [one().steadiness for one in (Method, FedProx, Silent, Said)] == ["round", "round", "", "epoch"]
    assert {*UNSTEADY}.isdisjoint(STEADY) and len(STEADY) >= 22
    assert [name for name in STEADY if method(name).steadiness == "epoch"] == ["fedrd"]
