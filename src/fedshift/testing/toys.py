"""Small federations whose numbers can be computed by hand, or quickly."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedshift.common.files import dotted
from fedshift.common.registry import get
from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.layout import Network
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.federation.samples import ClientData, Samples
from fedshift.models.base import Model, Out
from fedshift.spec import RunSpec
from fedshift.spec.block import params

torch.set_num_threads(1)  # several processes on few cores: threads would only wait for each other

BASE: dict[str, Any] = {
    "data": {"dataset": "digits"},
    "model": {"name": "digits_cnn"},
    "method": {"name": "fedavg"},
    "local": {"batch": 8, "lr": 0.1},
    "federation": {"rounds": 2},
}
FEW_SHOT = ((1,), (0,), (0, 1))  # labels that count as rare at the clients of `images`
# Training, validation and test images of the clients, in no proportion: code that counts the wrong ones, or
# none, fails.
SIZES = ((16, 3, 5), (6, 5, 4), (14, 4, 3))


def spec(**blocks: dict[str, Any]) -> RunSpec:
    """BASE with some keys of some blocks changed."""
    seed: Any = blocks.pop("seed", 0)
    merged = {name: {**BASE.get(name, {}), **blocks.get(name, {})} for name in {*BASE, *blocks}}
    return RunSpec.model_validate({"seed": seed, **merged})


def method(name: str, **hp: Any) -> Method:
    """A method by name with hyper-parameters."""
    built: Method = get("methods", name)(params(get("methods", name), hp))
    return built


class Untouched:
    """No augmentation."""

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.empty(n, 0)

    def __call__(self, images: Tensor, draws: Tensor, size: int | None = None) -> Tensor:
        return images


class Point(Model):
    """One number w in float64; its "logits" on a sample (h, c) are (h, w - c)."""

    name = "point"
    indicator = "w"

    def __init__(self, start: float) -> None:
        super().__init__(1, 1)
        self.start = start
        self.w = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def initialise(self, module: nn.Module) -> None:
        nn.init.constant_(self.w, self.start)

    def forward(self, x: Tensor, after: object = None) -> Out:
        return Out(x, torch.stack([x[:, 0], self.w - x[:, 1]], 1))


def quadratic(logits: Tensor, y: Tensor) -> Tensor:
    """Mean of h / 2 (w - c)^2."""
    return (logits[:, 0] / 2 * logits[:, 1].square()).mean()


def quadratics(
    method: Method, h: list[float], c: list[float], start: float, lr: float, steps: int, rounds: int,
    sizes: list[int] | None = None, **blocks: dict[str, Any],
) -> Federation:  # fmt: skip
    """Clients with objectives h_k / 2 (w - c_k)^2 and `steps` full-batch steps a round.

    sizes: client k has sizes[k] copies of (h_k, c_k); blocks: other keys of `local` and `federation`.
    """
    sizes = sizes or [1] * len(h)
    columns = [torch.as_tensor(values, dtype=torch.float64) for values in (h, c)]
    pixels = torch.stack(columns, 1).repeat_interleave(torch.tensor(sizes), 0)
    bounds = torch.tensor([0, *sizes]).cumsum(0).tolist()
    nobody = torch.empty(0, dtype=torch.int64)
    clients = [ClientData(torch.arange(*pair), nobody, nobody) for pair in itertools.pairwise(bounds)]
    samples = Samples(pixels, torch.zeros(len(pixels), dtype=torch.int64), Untouched(), lambda x: x)
    local = {"batch": max(sizes), "lr": lr, "epochs": steps, **blocks.get("local", {})}
    run = spec(local=local, federation={"rounds": rounds, **blocks.get("federation", {})})
    return Federation(run, method, lambda: Point(start), samples, clients, nobody, quadratic)


def images(
    clients: int = 3, sizes: Sequence[tuple[int, int, int]] = SIZES, target: int = 12, px: int = 32
) -> tuple[Samples, list[ClientData], Tensor]:
    """Random images of two classes that differ in brightness, and a held-out domain.

    Client k has sizes[k] (train, val, test) images, cyclic. They are pairs of both classes, in turn from
    domain k and from the next client's. Each domain dims one of the three colours.
    """
    counts = [sum(sizes[k % len(sizes)]) for k in range(clients)]
    n = sum(counts) + target
    rng = torch.Generator().manual_seed(7)
    labels = torch.arange(n) % 2
    pixels = torch.randint(0, 128, (n, px, px, 3), generator=rng) + 127 * labels[:, None, None, None]
    parts = torch.arange(n - target).split(counts)
    held = []
    for k, part in enumerate(parts):
        pair = [k, (k + 1) % clients]
        for place, domain in enumerate(pair):
            dimmed = part[(torch.arange(len(part)) // 2) % 2 == place]
            pixels[dimmed, :, :, domain % 3] = pixels[dimmed, :, :, domain % 3] * 4 // 5
        names = tuple(dict.fromkeys(f"domain{domain}" for domain in pair))
        train, val, test = part.split(sizes[k % len(sizes)])
        held.append(ClientData(train, val, test, names, FEW_SHOT[k % 3]))
    samples = Samples(pixels.to(torch.uint8), labels, Floats(), to_float, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    return samples, held, torch.arange(n - target, n)


def to_float(pixels: Tensor) -> Tensor:
    """uint8 [B, px, px, 3] to [-1, 1] floats [B, 3, px, px]."""
    return (pixels.float() / 127.5 - 1).permute(0, 3, 1, 2)


class Floats(Untouched):
    """No augmentation of images."""

    def __call__(self, images: Tensor, draws: Tensor, size: int | None = None) -> Tensor:
        return to_float(images)


def small(
    run: RunSpec, method: Method, clients: int = 3, sizes: Sequence[tuple[int, int, int]] = SIZES,
    **options: Any,
) -> Federation:  # fmt: skip
    """A federation of digits_cnn on random images."""
    samples, held, target = images(clients, sizes)
    model = get("models", run.model.name)
    return Federation(run, method, lambda: model(2, 32), samples, held, target, **options)


def tensors(federation: Federation) -> dict[str, Tensor]:
    """Every tensor of the state by its joined name, sharing memory with it."""
    state = dotted(federation.state.state_dict(), "/")
    return {name: value for name, value in state if isinstance(value, Tensor)}


def diagnosed(federation: Federation) -> dict[tuple[str, int, int], dict[int, float]]:
    """Diagnostics that a federation has not yet written: (name, round, client) -> numbers by index."""
    numbers: dict[tuple[str, int, int], dict[int, float]] = {}
    for table in federation.log.table.rows:
        for row in table.to_pylist():
            place = numbers.setdefault((row["name"], row["round"], row["client"]), {})
            assert row["index"] not in place
            place[row["index"]] = row["value"]
    return numbers


def finish(federation: Federation, rounds: int | None = None) -> Federation:
    """Run to the end, or until `rounds` are finished."""
    for _ in federation.run():
        if federation.round == rounds:
            break
    return federation


def aliased(network: Network) -> bool:
    """Whether every tensor and gradient of a network still shares memory with its flat vectors."""
    for tensor, entry in network._pairs:
        pairs: list[tuple[Tensor | None, Tensor]] = [(tensor, network.row)]
        if tensor.requires_grad:
            pairs.append((tensor.grad, network.g))
        if any(own is None or own.data_ptr() != entry.view(flat).data_ptr() for own, flat in pairs):
            return False
    return True


def recorded(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments and the result of every later call of a function of a module or class."""
    calls: list[tuple[Any, ...]] = []
    function: Callable[..., Any] = getattr(owner, name)

    def spy(*args: Any, **options: Any) -> Any:
        before = [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]
        calls.append((*before, function(*args, **options)))
        return calls[-1][-1]

    monkeypatch.setattr(owner, name, spy)
    return calls


def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """(received, trained) rows of every later turn of a client."""
    seen: list[tuple[Tensor, Tensor]] = []
    train: Callable[[Client, Method], Tensor] = vars(loop)["train"]

    def spy(self: Client, hooks: Method) -> Tensor:
        result = train(self, hooks)
        seen.append((self.received.clone(), self.row.clone()))
        return result

    monkeypatch.setattr(loop, "train", spy)
    return seen


def trained(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """Run to the end; (received, trained) rows of every turn."""
    with monkeypatch.context() as patch:
        seen = turns(patch)
        finish(federation)
    return seen
