"""What holds for every network, and the stages that methods name."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.federation.layout import Layout, Network, initial
from fedshift.federation.loop import Federation
from fedshift.models.base import AnyModule, Model
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import aliased, finish, images, spec
from fedshift.testing.toys import method as make

INPUT = {"alexnet_bn": 64, "vit_small": 64}


def build(name: str, classes: int = 7, px: int | None = None) -> Model:
    torch.manual_seed(0)
    return registry.get("models", name)(classes, px or INPUT.get(name, 32))


@pytest.mark.parametrize("name", registry.names("models"))
class TestEveryModel:
    def test_the_start_depends_on_the_seed_and_on_no_draw_before(self, name):
        """Every tensor is drawn anew under its module's own seed, also those that a method adds to a network that it takes."""

        def rows(hook, draws):
            def built():
                torch.rand(draws)
                return hook(registry.get("models", name)(7, INPUT.get(name, 32)))

            return initial(built, 0)

        hooks = [lambda model: model]
        for method in ("stablefdg", "fdse"):
            with contextlib.suppress(FedshiftError):
                rows(make(method).model, 0)
                hooks.append(make(method).model)
        for hook in hooks:
            (_, layout, one), (_, _, other) = rows(hook, 0), rows(hook, 5)
            named = zip(layout.entries, layout.named(one).values(), layout.named(other).values(), strict=True)
            assert [entry.name for entry, a, b in named if not a.equal(b)] == []

    def test_stop_is_a_prefix_and_after_sees_the_stage(self, name):
        model = build(name).eval()
        x = torch.randn(2, 3, model.input_px, model.input_px)
        last = list(model.stages)[-1]
        assert torch.equal(model.body(x, stop=last), model.body(x))
        seen = {}

        def double(stage):
            def function(z):
                seen[stage] = z.clone()
                return 2 * z

            return function

        model.body(x, after={stage: double(stage) for stage in model.stages}, stop="stage2")
        assert [stage for stage in seen if stage != "stem"] == ["stage1", "stage2"]
        assert torch.equal(
            model.body(x, stop="stage1", after={"stage1": double("stage1")}), 2 * seen["stage1"]
        )
        z = model.body(x, stop="stage1")
        for stage in list(model.stages)[list(model.stages).index("stage1") + 1 :]:
            z = model.stages[stage](3 * z if stage == "stage2" else z)
        tripled = model(x, after={"stage1": lambda z: 3 * z})
        torch.testing.assert_close(tripled.logits, model.head(model.neck(z)), rtol=0, atol=0)

    def test_smallest_input(self, name):
        cls = registry.get("models", name)
        model = cls(7, cls.min_px).eval()
        assert model(torch.randn(2, 3, cls.min_px, cls.min_px)).logits.isfinite().all()
        if cls.min_px == 1:
            return
        with pytest.raises(FedshiftError, match=f"{cls.min_px - 1} px is too small"):
            cls(7, cls.min_px - 1)
        model.min_px = 1
        with pytest.raises(RuntimeError):  # the bound is tight: PyTorch itself refuses one pixel less
            model(torch.randn(2, 3, cls.min_px - 1, cls.min_px - 1))

    def test_trains_in_its_flat_vector(self, name):
        cls, px = registry.get("models", name), INPUT.get(name, 32)
        model, layout, row = initial(lambda: cls(7, px), seed=3)
        network = Network(model.train(), layout, torch.device("cpu")).bind(row)
        x = torch.randn(8, 3, px, px).contiguous(memory_format=torch.channels_last)
        torch.nn.functional.cross_entropy(model(x).logits, torch.arange(8) % 7).backward()
        assert aliased(network) and network.g.isfinite().all()
        for entry in layout.entries:
            if entry.offset < layout.P:
                assert entry.view(network.g).count_nonzero() > 0, entry.name

    def test_bf16_channels_last_is_close_to_fp32(self, name):
        model = build(name).eval()
        x = torch.randn(8, 3, model.input_px, model.input_px)
        exact = model(x)
        model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            near = model(x)
            loss = torch.nn.functional.cross_entropy(model.train()(x).logits, torch.arange(8) % 7)
        assert near.logits.dtype == torch.bfloat16
        for a, b in zip(near, exact, strict=True):
            assert 0 < (a - b).abs().max() < 0.03 * b.abs().max()
        loss.backward()
        for key, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.isfinite().all(), key


def test_unknown_stage_names_the_nearest():
    model, x = build("digits_cnn"), torch.randn(2, 3, 32, 32)
    with pytest.raises(FedshiftError, match=r"unknown stage 'stge1'\n  Did you mean 'stage1'"):
        model.body(x, stop="stge1")
    with pytest.raises(FedshiftError, match="unknown stage 'stag2'"):
        model(x, after={"stag2": lambda z: z})


def test_unknown_option():
    with pytest.raises(FedshiftError, match="unknown option 'width'"):
        registry.get("models", "digits_cnn")(10, 32, width=2)


PX = {"vit_small": 256}


def planned(method: str, model: str, **hp: Any) -> None:
    px = PX.get(model, 64)
    data = {"prepare": {"px": px}, "input_px": px}
    resolve(spec(data=data, model={"name": model}, method={"name": method, "params": hp}), "here")


@pytest.mark.parametrize(
    ("method", "model", "hp", "said"),
    [
        ("dsu", "mobilenet", {}, ("stages", "stem of mobilenet", "[stem, stage1, stage2, stage3, stage4]")),
        ("dsu", "vit_small", {}, ("stages", "stem of vit_small", "stage6]")),
        ("dsu", "resnet18", {"stages": ["stage1", "stage5"]}, ("stages", "'stage5'", "stem, stage1, stage2, stage3, stage4.")),
        ("mixstyle", "lenet", {}, ("stages", "'stage3' is no stage of lenet", "Valid: stage1, stage2.")),
        ("stablefdg", "digits_cnn", {"positions": ["stage9"]}, ("positions", "'stage9'", "stage4.")),
        ("fdse", "densenet", {}, ("no layer to decompose", "alexnet_bn")),
    ],
)  # fmt: skip
def test_refused_when_planned(method: str, model: str, hp: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(FedshiftError) as error:
        planned(method, model, **hp)
    assert str(error.value).startswith("here: ")
    assert all(word in str(error.value) for word in said), str(error.value)


class Foreign(nn.Module):
    """A network as others write it."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 5), nn.Linear(5, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.flatten(1)).relu())


class Convolved(Foreign):
    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.before = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.before(x))


class HeadAlone(nn.Sequential):
    def __init__(self, classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(12, classes))


def any_module(of: Any) -> Model:
    return type("Taken", (AnyModule,), {"name": "taken", "network": of})(3, 2)


@pytest.mark.parametrize(("of", "indicator"), [(Foreign, "first.weight"), (Convolved, "before.weight")])
def test_a_network_of_any_shape_has_a_stage_and_a_head(of: type[nn.Module], indicator: str) -> None:
    model, x = any_module(of), torch.randn(4, 3, 2, 2)
    assert (model.indicator, model.feature_dim) == (f"stages.stage1.{indicator}", 5)
    whole = of(3)
    body = model.stages["stage1"].state_dict()
    whole.load_state_dict(
        {**body, **{f"last.{name}": value for name, value in model.head.state_dict().items()}}
    )
    torch.testing.assert_close(model(x).logits, whole(x))


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (lambda classes: Foreign(classes + 1), "3 outputs: one of 4 outputs"),
        (lambda: nn.Sequential(nn.Flatten()), "3 outputs: none"),
        (HeadAlone, "no layer before the last one"),
    ],
)
def test_a_network_without_the_parts_that_methods_need_is_refused(of: Any, message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        any_module(of)


def test_efficientnet_lite0_is_built_as_published() -> None:
    """TensorFlow's constants of batch normalisation, and dropout after the pooling."""
    model = registry.get("models", "efficientnet_lite0")(7, 64)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 2 + 2 + 3 * 15 and {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}
    assert [type(part).__name__ for part in model.neck] == ["GlobalAverage", "Dropout"]
    assert (model.classes, model.input_px) == (7, 64)


class Loaded(nn.Sequential):
    """Has a weight of its own, and a frozen layer."""

    def __init__(self, classes: int) -> None:
        pool = nn.AdaptiveAvgPool2d(2)
        super().__init__(nn.Conv2d(3, 3, 1), nn.Conv2d(3, 5, 1), pool, nn.Flatten(), nn.Linear(20, classes))
        nn.init.constant_(self[0].weight, 0.5)
        self[0].requires_grad_(False)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_network_of_any_shape_starts_as_it_is_and_its_frozen_layers_stay(optimizer: str) -> None:
    kind = type("Taken", (AnyModule,), {"name": "taken", "network": Loaded})
    samples, held, target = images()
    local = {"optimizer": optimizer, "lr": 0.01, "weight_decay": 0.1}
    run = spec(local=local, federation={"rounds": 2})
    federation = finish(Federation(run, make("fedavg"), lambda: kind(2, 32), samples, held, target))
    entries = {entry.name: entry.view(federation.state.row) for entry in federation.layout.entries}
    frozen = entries["stages.stage1.0.weight"]
    torch.testing.assert_close(frozen, torch.full_like(frozen, 0.5))
    assert [name for name in entries if "weight" in name][:2] == ["stages.stage1.1.weight", "head.weight"]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (lambda: nn.BatchNorm2d(3, momentum=None), "averages over a count of batches"),
        (lambda: nn.Linear(2, 2).requires_grad_(False), "no trainable parameter"),
    ],
)
def test_what_clients_cannot_have(of: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        Layout(nn.Sequential(of()))
