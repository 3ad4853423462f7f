"""Base class of federated methods, with all attributes and hooks that a method may override. A method that
overrides nothing is FedAvg.

`__all__` lists the names that the file of a method imports.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from torch import Tensor

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError
from fedshift.federation.client import Client
from fedshift.federation.layout import Index, Layout
from fedshift.federation.server import Server, mean
from fedshift.federation.state import Slot
from fedshift.models.base import Model

__all__ = [
    "Client", "Index", "Layout", "Method", "Model", "Server", "Slot", "Visit", "equation", "mean",
]  # fmt: skip

Visit = Callable[[Iterable[int], Callable[[Client], Mapping[str, Tensor] | None]], dict[str, list[Tensor]]]
IN_A_STEP = {"model", "loss", "grad", "step"}  # hooks that decide what a step does
NEAR = 0.6  # share of letters by which a name is taken for another's misspelling


@dataclass(frozen=True)
class NoParams:
    """A method without hyper-parameters."""


class Method:
    """A federated method: attributes and hooks. S: the server; C: a client in one round; L: the layout.

    A class that overrides nothing is FedAvg. A model is a flat vector [P + Q], called `row`: P parameters,
    then Q buffers. An instance serves one run. State that outlives a round belongs in slots, which
    checkpoints contain. Messages that hooks return, {name: tensor}, are counted as traffic.

    Hooks, in order. Once: `model`, `local`, `personal`. Each round: `setup`, `round`, `broadcast` (server);
    `begin`, then for each batch `loss`, `grad`, `step`, then `end` (client); `aggregate` (server). For the
    held-out domain: `unseen`.

    Attributes:

    - name: the name in the registry
    - version: raise it when results change
    - Params: a frozen dataclass of the hyper-parameters; `hp` is an instance of it
    - slots: tensors that outlive the round
    - logs: name -> meaning, in one line, of the tensors that hooks `log`
    - clients: "pooled" trains one client on all data
    - weights: weights of the average, in place of the protocol's
    - weighs: `aggregate` has its own rule for weights, whatever the protocol specifies
    - optimizer_state: "persist" or "reset" clients' optimisers between rounds, in place of the protocol's
    - evaluates: "model"; "shared" if private entries are not part of the tested model; or the name of a
      client slot that contains the client's own model
    - clip_first: call `grad` after clipping
    - param_groups: role -> other settings of the optimiser (fedshift.federation.optimizer.Rule) for the
      trainable entries of that role, which must be the model's last ones
    - rendering: images that are rendered before training and replace the training images
    - steady: whether a GPU may record and replay the step

    A method is steady if `loss`, `grad` and `step` do the same operations on the same tensors in every step.
    "round": in every step of a client's round except the first; "epoch": in every step of an epoch except the
    first; "": not. Subclasses that override one of these hooks or `model` declare it themselves; a method
    that overrides none is steady.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams
    slots: tuple[Slot, ...] = ()
    logs: Mapping[str, str] = MappingProxyType({})
    clients: Literal["partition", "pooled"] = "partition"
    weights: Literal["size", "uniform"] | None = None
    weighs: ClassVar[bool] = False
    optimizer_state: Literal["reset", "persist"] | None = None
    evaluates: str = "model"
    clip_first: bool = False
    param_groups: Mapping[str, Mapping[str, Any]] | None = None
    rendering: ClassVar[str | None] = None
    steady: ClassVar[Literal["round", "epoch", ""]] = "round"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reject misspelled hooks: a method with `gradient` in place of `grad` would silently be FedAvg."""
        super().__init_subclass__(**kwargs)
        where = f"{cls.__module__}.{cls.__name__}"
        hooks = [name for name in vars(Method) if not name.startswith("_")]
        for name in vars(cls):
            close = difflib.get_close_matches(name, hooks, n=1, cutoff=NEAR)
            if close and not hasattr(Method, name) and not name.startswith("_"):
                cure = f"Did you mean '{close[0]}'? The names of helpers begin with '_'."
                raise FedshiftError(where, f"'{name}' is not a hook", cure)

    def __init__(self, hp: Any = None) -> None:
        self.hp = self.Params() if hp is None else hp

    def model(self, model: Model) -> Model:
        """Change the network once, before the run: swap blocks, replace the head.

        Raises FedshiftError for a network that it cannot change. It is also called when a run is planned, on
        the meta device, without values.
        """
        return model

    def personal(self, L: Layout) -> Index:
        """Entries of which every client has its own; they travel both ways, and the server may mix them."""
        return L.nothing

    def local(self, L: Layout) -> Index:
        """Entries of which every client has its own, and which never leave it."""
        return L.nothing

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        """Prepare a round, before its clients train.

        `visit(clients, ask)` sends each of these clients the model, calls ask(C), and returns all their
        messages, {name: a list of tensors, one for each}. The hook returns what each client of the round
        receives as `C.down.<name>`, {name: [K, ..]}. Do what happens once if S.t == 0.
        """
        return {}

    def round(self, S: Server, train: Callable[[Sequence[int]], None]) -> None:
        """Run one round; `train(clients)` trains these from the server's state and aggregates them."""
        train(S.active)

    def broadcast(self, S: Server, clients: list[int]) -> Tensor:
        """The models [K, P + Q] that these clients receive; override it if the server makes one for each."""
        return S.row.expand(len(clients), -1)

    def begin(self, C: Client) -> Mapping[str, Tensor] | None:
        """Called when the model is received, before the first step; returns messages to send."""
        return None

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        """The objective on one batch, x [B, 3, h, w], y [B]; a scalar."""
        return C.criterion(C.model(x).logits, y)

    def grad(self, C: Client, g: Tensor) -> None:
        """Change the gradient g [P] in place, between backward and clipping."""

    def step(self, C: Client, x: Tensor, y: Tensor) -> None:
        """Called after the optimiser's step, with the same batch."""

    def end(self, C: Client) -> Mapping[str, Tensor] | None:
        """Called after the client's last step, if it took any (C.steps); returns messages to send."""
        return None

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        """Compute the new global row from rows [K, P + Q] (local entries: NaN), weights p [K] and messages
        {name: [K, ..]}.

        Values that it writes into the personal entries of `rows` are what those clients receive next. This
        rule, which most methods inherit, gets the average alone, as one row of weight 1 (`averages`).
        """
        S.row[S.shared.at] = mean(rows, p)[S.shared.at]

    def unseen(self, S: Server) -> Tensor:
        """The models [M, P + Q] for a domain that no client has; their accuracies are averaged.

        This rule gives all clients' models if the server generates them, or if clients test with private
        entries, of which the server has no copy. Otherwise it gives the global model.
        """
        if self.generates:
            return self.broadcast(S, list(range(S.N)))
        if self.evaluates == "shared" or not (S.local.size or S.personal.size):
            return S.row[None]
        rows = S.row.repeat(S.N, 1)
        for index in (S.local, S.personal):
            rows[:, index.at] = S.peek(index)
        return rows

    @property
    def steadiness(self) -> str:
        """`steady`, or "" if a class overrides a hook of the step and does not declare it."""
        said = next(one for one in type(self).__mro__ if {"steady", *IN_A_STEP} & vars(one).keys())
        return self.steady if "steady" in vars(said) else ""

    @property
    def averages(self) -> bool:
        """Whether the server only needs the weighted mean of the rows, computed as they arrive."""
        return type(self).aggregate is Method.aggregate

    @property
    def generates(self) -> bool:
        """Whether the server makes each client's model."""
        return type(self).broadcast is not Method.broadcast
