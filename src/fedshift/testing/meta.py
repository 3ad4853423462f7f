"""The `meta` device in the place of an accelerator: notes where devices are mixed, and where the host waits.

A meta tensor has a shape and no values, so that whatever asks for a value shows; it gets ones, and the
round goes on.

Seen, with the place in fedshift that asks: an operation on tensors of both devices (a host tensor without
dimensions is a number, and may); a device tensor indexed by a host one (a copy in disguise). *Reads*:
`item`, `bool`, `int`, `tolist`, `cpu` and other copies to the host; masks as indices, `nonzero` and all
whose result's shape depends on values; `equal`; factorisations that check their success. *Sends* that wait:
what is copied to the device without `non_blocking`, `torch.tensor` and its like, lists as indices.

Not seen: how long anything takes; kernels that an accelerator lacks, or that wait inside; memory that is
not pinned, from which even a non-blocking copy waits for its own bytes; autocast, which this device has not
(bf16 is played in fp32); fused optimisers, which do nothing here; what branches do for other values than
ones; whether views share memory (every meta tensor has the address 0).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

SOURCE = Path(__file__).parents[1]
META = torch.device("meta")
MASKS = (torch.bool, torch.uint8)
aten = torch.ops.aten
COPIES = {"_to_copy", "copy_"}
INDEXED = {"index", "_unsafe_index", "index_put", "index_put_"}
FUSED = {"_fused_sgd_", "_fused_adam_"}
SIZED = {
    "nonzero",
    "_unique2",
    "unique_consecutive",
    "unique_dim",
    "masked_select",
    "bincount",
    "repeat_interleave",
}
CHECKED = {
    "_linalg_eigh",
    "_linalg_svd",
    "_linalg_solve_ex",
    "linalg_eig",
    "linalg_cholesky_ex",
    "linalg_inv_ex",
}
WAITING = SIZED | CHECKED | {"equal"}
MAKERS = {torch.tensor, torch.as_tensor, Tensor.new_tensor}
ITEMS = {Tensor.__getitem__, Tensor.__setitem__}

Note = Callable[[str, str], None]


@contextmanager
def accelerator() -> Iterator[None]:
    """Let torch take the device for one that trains: with autocast (of which nothing is seen) and fused
    optimisers.
    """
    autocast, supported = torch.autocast, "_get_fused_kernels_supported_devices"
    with ExitStack() as stack:
        for owner, name, value in (
            (torch, "autocast", lambda kind, *rest, **options: autocast("cpu", *rest, **options)),
            (import_module("torch.optim.optimizer"), supported, lambda: ["cpu", "meta"]),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


class Mixed(Exception):
    """An operation on tensors of both devices: its name and place."""


def place() -> str:
    """Which line of fedshift called the operation under way: file, line and function."""
    for frame, line in traceback.walk_stack(None):
        path = Path(frame.f_code.co_filename)
        if SOURCE in path.parents and SOURCE / "testing" not in path.parents:
            return f"{path.relative_to(SOURCE)}:{line} {frame.f_code.co_name}"
    return "outside"


class Sends(TorchFunctionMode):
    """Tells `note` of the host's lists that torch copies to the device unseen by `Operations`: note("send",
    what).
    """

    def __init__(self, note: Note) -> None:
        self._note = note
        super().__init__()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in MAKERS:
            like = args[0].device if isinstance(args[0], Tensor) else "cpu"
            if torch.device(options.get("device") or like) == META:
                self._note("send", func.__name__)
        elif func in ITEMS and args[0].is_meta:
            keys = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(key, list) for key in keys):
                self._note("send", "a list as index")
        return func(*args, **options)


class Operations(TorchDispatchMode):
    """Tells `note` of reads and sends, note("read" or "send", what); raises Mixed."""

    def __init__(self, note: Note) -> None:
        self._note = note
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options, name = dict(kwargs or {}), func._schema.name.removeprefix("aten::")
        tensors = [*tensors_in((args, options))]
        if not any(tensor.is_meta for tensor in tensors) and name not in COPIES:
            return func(*args, **options)
        if name in FUSED:
            return None
        if name in COPIES:
            return self._copy(func, name, args, options)
        if name == "_local_scalar_dense":
            self._note("read", "item")
            return torch.ones((), dtype=args[0].dtype).item()
        if any(not tensor.is_meta and (tensor.dim() or name in INDEXED) for tensor in tensors):
            devices = ", ".join(f"{tensor.device.type} {list(tensor.shape)}" for tensor in tensors)
            raise Mixed(f"{place()}: {func} on {devices}")
        if name in INDEXED and any(tensor is not None and tensor.dtype in MASKS for tensor in args[1]):
            self._note("read", "a mask as index")
            args = (args[0], positions(args[1]), *args[2:])
        if name in WAITING:
            self._note("read", name)
            return of_ones(func, args, options)
        try:
            return func(*args, **options)
        except NotImplementedError:  # a kernel that this device lacks
            return of_ones(func, args, options)

    def _copy(self, func: Any, name: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """A copy between devices, or within one."""
        source, target = args[0], options.get("device") or args[0].device
        if name == "copy_":
            source, target = args[1], args[0].device
        if source.device == target:
            return func(*args, **options)
        if source.is_meta:
            self._note("read", "a copy to the host")
            ones = torch.ones(source.shape, dtype=options.get("dtype") or source.dtype)
            return args[0].copy_(ones) if name == "copy_" else ones
        if not (options.get("non_blocking") or (name == "copy_" and any(args[2:]))):
            self._note("send", "a copy to the device")
        return func(*args, **options)


class Remembered(TorchDispatchMode):
    """Computes no shape twice: torch finds most of those of the device in Python, in milliseconds."""

    def __init__(self) -> None:
        self._results: dict[Any, Any] = {}
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        tensors = [*tensors_in((args, options))]
        aliased = any(output.alias_info is not None for output in func._schema.returns)
        if not tensors or not all(tensor.is_meta for tensor in tensors) or func.is_view:
            return func(*args, **options)
        key = (func, _described((args, options)))
        if key not in self._results:
            before = [_described(tensor) for tensor in tensors]
            result = func(*args, **options)
            if [_described(tensor) for tensor in tensors] == before:  # not resize_
                self._results[key] = tree_map_only(Tensor, _alike, result)
            return result
        if aliased:
            return args[0]  # what works in place returns what it worked on
        result = self._results[key]
        return _alike(result) if isinstance(result, Tensor) else tree_map_only(Tensor, _alike, result)


def _alike(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)


def _described(value: Any) -> Any:
    """What of a tensor decides the shapes of results; any other value with its type, since 1 == 1.0 ==
    True.
    """
    if isinstance(value, Tensor):
        return tuple(value.shape), value.stride(), value.dtype
    if isinstance(value, list | tuple):
        return tuple(map(_described, value))
    if isinstance(value, dict):
        return tuple((name, _described(item)) for name, item in value.items())
    return type(value), value


def positions(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices with every mask replaced by as many positions as it has places."""
    positions_of: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in MASKS:
            positions_of += [torch.empty(index.numel(), dtype=torch.int64, device=META)] * index.dim()
        else:
            positions_of.append(index)
    return positions_of


def of_ones(func: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """The result of an operation where all values are ones, on the device."""
    args, options = tree_map_only(
        Tensor, lambda tensor: torch.ones(tensor.shape, dtype=tensor.dtype), (args, options)
    )
    return tree_map_only(Tensor, lambda tensor: tensor.to(META), func(*args, **options))


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors of an operation's arguments or results: alone, in lists and in the values of a dict."""
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))
