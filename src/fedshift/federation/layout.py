"""The flat state of a model: the slice of a row for each entry.

A *row* is one tensor [P + Q]: P trainable floats, then Q statistics. Entries have the order of the model.
Convolution weights are channels_last in it, on every device and in every precision.

On a GPU each entry begins at a multiple of 16 bytes, and so does the next row of a matrix of rows. Kernels
read 16 bytes at a time, and cuDNN's batch normalisation fails on any other address. The floats between
entries are padding: they have no meaning and are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, sha256
from fedshift.federation.batches import key
from fedshift.models.base import Model

NORMALISATIONS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm)
ALIGNMENT = {"cuda": 4}  # floats by type of device; 1 elsewhere


class Index:
    """A set of `size` positions in a row of `total`; `row[i.at]` is a view if contiguous, else a copy."""

    def __init__(self, at: slice | Tensor, total: int) -> None:
        self._positions = self.at = at  # on the host, and where tensors are indexed
        self.total = total
        self.size = len(at) if isinstance(at, Tensor) else at.stop - at.start

    @classmethod
    def of(cls, positions: Tensor, total: int) -> Index:
        """The set of the ascending `positions` [size]."""
        if not len(positions):
            return cls(slice(0, 0), total)
        first, last = int(positions[0]), int(positions[-1])
        contiguous = last - first + 1 == len(positions)
        return cls(slice(first, last + 1) if contiguous else positions, total)

    @classmethod
    def where(cls, mask: Tensor) -> Index:
        """The positions at which `mask` [total] is true."""
        return cls.of(mask.nonzero().flatten(), len(mask))

    @property
    def mask(self) -> Tensor:
        """Mask [total] that is true at the positions; on the CPU."""
        mask = torch.zeros(self.total, dtype=torch.bool)
        mask[self._positions] = True
        return mask

    def to(self, device: torch.device) -> Index:
        """The same set, for indexing tensors on `device`."""
        moved = Index(self._positions, self.total)
        if isinstance(moved.at, Tensor):
            moved.at = moved.at.to(device)
        return moved

    def __and__(self, other: Index) -> Index:
        return Index.where(self.mask & other.mask)

    def __or__(self, other: Index) -> Index:
        if self.size == 0 or other.size == 0:
            return other if self.size == 0 else self
        return Index.where(self.mask | other.mask)

    def __invert__(self) -> Index:
        return Index.where(~self.mask)


@dataclass(frozen=True)
class Entry:
    """One tensor of a model.

    - kind: weight | bias | bn_affine | bn_statistic | norm | statistic | embedding, by module type
    - role: the `role` of the nearest module that has one, else ""
    - layer: the nearest module with `layer = True`, else a convolution or linear map with the normalisation
      that follows it
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str
    role: str
    layer: str

    @property
    def slice(self) -> slice:
        return slice(self.offset, self.offset + torch.Size(self.shape).numel())

    def view(self, row: Tensor) -> Tensor:
        """This entry in its own shape, sharing memory with `row` (contiguous, [P + Q] or a prefix)."""
        return row.as_strided(self.shape, self.strides, row.storage_offset() + self.offset)


class Layout:
    """All entries of a model. P, Q: sizes; W, B: slices of trainable entries and of the others, with padding.

    The others are statistics and the parameters that a network freezes (requires_grad=False).
    """

    def __init__(self, model: nn.Module, alignment: int = 1) -> None:
        """alignment: entries and rows begin at multiples of this number of floats.

        Raises FedshiftError for batch normalisation with `momentum=None`, and without a trainable parameter.
        """
        for name, module in model.named_modules():
            if isinstance(module, _BatchNorm) and module.track_running_stats and module.momentum is None:
                what = "averages over a count of batches (momentum=None), which clients do not have"
                raise FedshiftError(f"module {name}", what, "Give it a momentum, such as 0.1.")
        kinds, roles, layers = _described(model)
        parameters = dict(model.named_parameters())
        trainable = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        if not trainable:
            what = "has no trainable parameter"
            raise FedshiftError("the network", what, "Leave requires_grad on for some of them.")
        others: dict[str, Tensor] = {name: one for name, one in parameters.items() if name not in trainable}
        others |= {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}
        self.alignment = alignment
        self.entries: list[Entry] = []
        end = self.P = 0
        for name, tensor in {**trainable, **others}.items():
            memory = torch.channels_last if tensor.dim() == 4 else torch.contiguous_format
            strides = torch.empty_like(tensor, device="meta", memory_format=memory).stride()
            place = self._aligned(end), tuple(tensor.shape), tuple(strides)
            self.entries.append(Entry(name, *place, kinds[name], roles[name], layers[name]))
            end = self.entries[-1].slice.stop
            if name in trainable:
                self.P = end
        self.Q = self._aligned(end) - self.P
        self.W, self.B = slice(0, self.P), slice(self.P, self.size)
        self.dtype = next(iter(trainable.values())).dtype

    def _aligned(self, offset: int) -> int:
        """Round `offset` up to a multiple of the alignment."""
        return -(-offset // self.alignment) * self.alignment

    @property
    def size(self) -> int:
        return self.P + self.Q

    @property
    def everything(self) -> Index:
        return Index(slice(0, self.size), self.size)

    @property
    def nothing(self) -> Index:
        return Index(slice(0, 0), self.size)

    @property
    def trainable(self) -> Index:
        """The positions of `W`."""
        return Index(self.W, self.size)

    def kind(self, *kinds: str) -> Index:
        """The positions of all entries of these kinds."""
        return self.select(lambda entry: entry.kind in kinds)

    def role(self, *roles: str) -> Index:
        """The positions of all entries with one of these roles."""
        return self.select(lambda entry: entry.role in roles)

    def under(self, module: str) -> Index:
        """The positions of all entries of a module and its children, or of the one entry of that name."""
        return self.select(lambda entry: entry.name == module or entry.name.startswith(f"{module}."))

    def layers(self, index: Index, by: str = "layer") -> dict[str, Index]:
        """`index` split by layer, or by "tensor", without empty ones: name -> positions, in model order."""
        mask, places = index.mask, dict[str, list[Tensor]]()
        for entry in self.entries:
            inside = entry.offset + mask[entry.slice].nonzero().flatten()
            places.setdefault(entry.name if by == "tensor" else entry.layer, []).append(inside)
        joined = {name: torch.cat(positions) for name, positions in places.items()}
        return {name: Index.of(positions, self.size) for name, positions in joined.items() if len(positions)}

    def floats(self, index: Index) -> int:
        """The number of positions of `index` without padding."""
        mask = index.mask
        return sum(int(mask[entry.slice].sum()) for entry in self.entries)

    def tail(self, role: str) -> int:
        """The start of the trainable entries of a role, which must be the last ones."""
        at = (self.role(role) & self.trainable).at
        assert isinstance(at, slice), f"trainable entries of role '{role}' are scattered"
        assert at.stop == self.P, f"trainable entries of role '{role}' are not the model's last"
        return int(at.start)

    def select(self, wanted: Callable[[Entry], bool]) -> Index:
        """The positions of all entries for which `wanted` is true."""
        ends: list[tuple[int, int]] = []  # entries that adjoin, except for padding, are joined
        for part in (entry.slice for entry in self.entries if wanted(entry)):
            start = ends.pop()[0] if ends and self._aligned(ends[-1][1]) == part.start else part.start
            ends.append((start, part.stop))
        if len(ends) < 2:
            return Index(slice(*ends[0]), self.size) if ends else self.nothing
        return Index(torch.cat([torch.arange(*pair) for pair in ends]), self.size)

    def named(self, row: Tensor) -> dict[str, Tensor]:
        """Every entry of a row by name, in its own shape, sharing memory."""
        return {entry.name: entry.view(row) for entry in self.entries}

    @property
    def hash(self) -> str:
        """A hash that changes if stored rows would be read differently."""
        named = [(entry.name, entry.shape, entry.strides) for entry in self.entries]
        return sha256(canonical_json(named))[:16]


def _described(model: nn.Module) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Kind, role and layer of each entry. Modules come parents first, so the innermost role wins."""
    kinds, layers, last = dict[str, str](), dict[str, str](), ""
    roles, whole = dict.fromkeys(_tensors(model), ""), dict[str, str]()
    for prefix, module in model.named_modules():
        own, everything = _tensors(module, prefix, recurse=False), _tensors(module, prefix)
        if own and not (isinstance(module, NORMALISATIONS) and last):
            last = prefix
        layers |= dict.fromkeys(own, last)
        kinds |= {name: _kind(module, name.rpartition(".")[2]) for name in own}
        if role := getattr(module, "role", ""):
            roles |= dict.fromkeys(everything, role)
        if getattr(module, "layer", False) is True:
            whole |= dict.fromkeys(everything, prefix)
    return kinds, roles, layers | whole


def _tensors(module: nn.Module, prefix: str = "", recurse: bool = True) -> list[str]:
    parameters, buffers = module.named_parameters(prefix, recurse), module.named_buffers(prefix, recurse)
    return [name for name, _ in [*parameters, *buffers]]


def _kind(module: nn.Module, name: str) -> str:
    if name in module._buffers:
        return "bn_statistic" if isinstance(module, _BatchNorm) else "statistic"
    if isinstance(module, _BatchNorm):
        return "bn_affine"
    if isinstance(module, NORMALISATIONS):
        return "norm"
    if isinstance(module, nn.Embedding):
        return "embedding"
    return "bias" if "bias" in name else "weight"


class Network:
    """A model bound to one row at a time: its tensors are views into the row, gradients views into `g` [P].

    Training changes the row in place, so a client's result needs no copy. Binding uses no memory.
    """

    def __init__(self, model: Model, layout: Layout, device: torch.device) -> None:
        self.model: Model = model.to(device)
        self.g = torch.zeros(layout.P, dtype=layout.dtype, device=device)
        self.row = torch.zeros(layout.size, dtype=layout.dtype, device=device)
        tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        self._pairs = [(tensors[entry.name], entry) for entry in layout.entries]
        self._gradients: list[tuple[Tensor, Tensor]] = []
        for tensor, entry in self._pairs:
            tensor.data = entry.view(self.row)
            if entry.offset < layout.P:
                tensor.grad = entry.view(self.g)
                self._gradients.append((tensor, tensor.grad))

    @property
    def w(self) -> Tensor:
        """The trainable part of the row, [P]."""
        return self.row[: len(self.g)]

    def bind(self, row: Tensor) -> Network:
        """Make every tensor of the model a view into `row` [P + Q]."""
        if row.data_ptr() == self.row.data_ptr():
            return self
        self.row = row
        for tensor, entry in self._pairs:
            tensor.data = entry.view(row)
        return self

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """Set `g` to the gradient of a loss; 0 for entries that it does not reach or that are not trained.

        The gradients of all tensors are copied together, because adding each to its place takes one launch
        per tensor.
        """
        trained = [pair for pair in self._gradients if pair[0].requires_grad]
        if len(trained) < len(self._gradients):
            self.g.zero_()
        tensors, places = zip(*trained, strict=True)
        gradients = torch.autograd.grad(loss, tensors, retain_graph=retain_graph, materialize_grads=True)
        torch._foreach_copy_(places, gradients)


def initial(
    build: Callable[[], Model], seed: int, device: torch.device | None = None
) -> tuple[Model, Layout, Tensor]:
    """A run's network, its layout for `device`, and its initial row [P + Q], all on the CPU.

    Every module is initialised separately, with a generator seeded by the run's seed and the module's name.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "start"))
        model = build()
        for name, module in model.named_modules():
            torch.manual_seed(key(seed, "start", name))
            model.initialise(module)
    layout = Layout(model, ALIGNMENT.get(device.type, 1) if device else 1)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    row = torch.zeros(layout.size, dtype=layout.dtype)
    for entry in layout.entries:
        entry.view(row).copy_(tensors[entry.name].detach())
    return model, layout, row
