"""FedBN: statistics against the reference, what is kept, unseen domains."""

import pytest
import torch
from torch import nn

from fedshift.federation.batches import schedule
from fedshift.federation.layout import Layout
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.models.base import Model, Out
from fedshift.testing.toys import Untouched, finish, method, small, spec
from tests.methods import plain
from tests.reference import Reference


class Normed(Model):
    """One batch normalisation of two features, in float64."""

    name = "normed"

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.norm = nn.BatchNorm1d(2, dtype=torch.float64)

    def forward(self, x: torch.Tensor, after: object = None) -> Out:
        return Out(x, self.norm(x))


class Misnamed(Model):
    """Layers whose names say the wrong thing."""

    name = "misnamed"

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.bn1 = nn.Linear(2, 2)
        self.norm = nn.LayerNorm(2)
        self.shortcut = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@pytest.mark.parity
def test_statistics_follow_the_reference() -> None:
    """One local epoch of two batches moves a client's own statistics: r <- .9 r + .1 m, with the unbiased variance."""
    ref = Reference("bn_adaptation.json")
    values, nobody = ref.given("batches"), torch.empty(0, dtype=torch.int64)
    run = spec(local={"batch": 4, "lr": 0.0}, federation={"rounds": 1})
    plan = schedule(8, run.local, run.seed, 0, 0, batch_norm=True)
    index = torch.cat(
        [positions for _, positions in plan]
    ).argsort()  # so that the drawn order shows the batches as the reference has them
    samples = Samples(values.flatten(0, 1), torch.zeros(8, dtype=torch.int64), Untouched(), lambda x: x)
    made = Federation(run, method("fedbn"), Normed, samples, [ClientData(index, nobody, nobody)], nobody)
    finish(made)
    own = dict(zip(("weight", "bias", "mean", "var"), made.state.own[0].split(2), strict=True))
    ref.equals("momentum", made.worker.network("model").model.norm.momentum)
    ref.equals("running_mean_after_1_epoch", own["mean"])
    ref.equals("running_var_after_1_epoch", own["var"])


def test_batch_normalisation_is_found_by_type() -> None:
    layout = Layout(Misnamed())
    kept = method("fedbn").local(layout).mask
    assert {entry.name for entry in layout.entries if kept[entry.slice].any()} == {
        f"shortcut.1.{name}" for name in ("weight", "bias", "running_mean", "running_var")
    }
    assert kept.sum() == 12


def test_an_unseen_domain_gets_nothing_of_clients_that_never_trained() -> None:
    """One of three clients a round: the mean is over those that have been drawn so far, whoever trained last."""
    run = small(spec(federation={"rounds": 3, "participation": 0.34}), method("fedbn"))
    for _ in run.run():
        drawn = [k for k, visits in enumerate(run.state.visits) if visits]
        (row,) = run.method.unseen(run.server)
        torch.testing.assert_close(row[run.state.private.at], run.state.own[drawn].mean(0))
    assert len(drawn) == 2


# Three rounds of FedBN, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedbn"))
    G = plain.named(f, f.state.row)
    kept = [name for name in G if ".bn." in name]
    own = [{name: G[name] for name in kept} for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        up = [plain.trained(f, G | own[k], k, t) for k in chosen]
        G = plain.average(up, plain.by_size(chosen))
        for k, P in zip(chosen, up, strict=True):
            own[k] = {name: P[name] for name in kept}
    finish(f)
    for k, mine in enumerate(own):
        assert plain.far(plain.kept(f, k), G | mine) < 1e-9
    unseen = {name: torch.stack([mine[name] for mine in own]).mean(0) for name in kept}
    assert plain.far(plain.named(f, f.method.unseen(f.server)[0]), G | unseen) < 1e-9
