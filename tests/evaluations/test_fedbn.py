"""FedBN-Adaption: statistics move as PyTorch's do, and nothing else."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.evaluations._adaptation import Adaptation
from fedshift.federation.layout import Layout, Network, initial
from fedshift.spec.block import params
from fedshift.testing.toys import method
from tests.methods.test_fedbn import Normed
from tests.reference import Reference


def adaptation(name: str, trained: str, **chosen: object) -> Adaptation:
    kind = get("evaluations", name)
    return kind(params(kind, chosen), method(trained))


def network(build) -> tuple[Network, Layout]:
    model, layout, row = initial(build, seed=0)
    return Network(model, layout, torch.device("cpu")).bind(row), layout


@pytest.mark.parity
def test_one_pass_is_the_reference() -> None:
    ref = Reference("bn_adaptation.json")
    net, layout = network(Normed)

    def batches(size: int) -> Iterator[Tensor]:
        assert size == 50
        yield from ref.given("batches")

    adaptation("fedbn", "fedbn").adapt(net, layout, batches)
    ref.equals("momentum", net.model.norm.momentum)
    ref.equals("running_mean_after_1_epoch", net.model.norm.running_mean)
    ref.equals("running_var_after_1_epoch", net.model.norm.running_var)


def images(n: int) -> Tensor:
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(3))


def test_only_statistics_change_and_five_epochs_are_five_passes() -> None:
    net, layout = network(lambda: get("models", "digits_cnn")(4, 32))
    before, x = net.row.clone(), images(12)
    adaptation("fedbn", "fedavg", epochs=5, batch=6).adapt(net, layout, lambda size: iter(x.split(size)))
    assert torch.equal(net.w, before[layout.W])
    expected = get("models", "digits_cnn")(4, 32)
    expected.load_state_dict(layout.named(before), strict=False)
    expected.train()
    with torch.no_grad():
        for _ in range(5):
            for part in x.split(6):
                expected(part)
    theirs = dict(expected.named_buffers())
    for entry in layout.entries:
        if entry.kind == "bn_statistic":
            torch.testing.assert_close(entry.view(net.row), theirs[entry.name], rtol=1e-5, atol=1e-6)
            assert not torch.equal(entry.view(net.row), entry.view(before))


def test_dropout_does_not_draw() -> None:
    """mobilenet has one before its head; with it the default generator would move."""
    net, layout = network(lambda: get("models", "mobilenet")(4, 32))
    state = torch.get_rng_state()
    adaptation("fedbn", "fedavg").adapt(net, layout, lambda size: iter(images(4).split(size)))
    assert torch.equal(torch.get_rng_state(), state)
    assert not net.model.neck[1].training
