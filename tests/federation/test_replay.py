"""Every number that a run of FedAvg records, against the same rounds written out: three unequal clients, one of them at rest, two targets."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.registry import get
from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, images, method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.2, "momentum": 0.9, "epochs": 2, "schedule": {"kind": "step", "unit": "epoch", "step": 3, "gamma": 0.5}}  # fmt: skip
ROUNDS = 5
RUN = spec(local=LOCAL, federation={"rounds": ROUNDS, "participation": 0.67}, evaluation={"every": 2})


def federation() -> tuple[Federation, list[Tensor]]:
    """Labels are noise, so that accuracies differ."""
    samples, held, target = images()
    samples.augment, samples.evaluate = plain.Doubles(), plain.pixels
    rng = torch.Generator().manual_seed(4)
    samples.labels = samples.host_labels = torch.randint(2, samples.labels.shape, generator=rng)
    model, targets = get("models", "digits_cnn"), list(target.split((5, 7)))
    return Federation(RUN, method("fedavg"), lambda: model(2, 32), samples, held, targets, F.cross_entropy), targets  # fmt: skip


def measured(f: Federation, P: plain.Tensors, at: Tensor) -> tuple[float, float]:
    x, y = f.worker.samples.take(at)
    out = plain.logits(P, plain.pixels(x), False)
    return float((out.argmax(1) == y).double().mean()), float(plain.cross_entropy(out, y))


@plain.doubles()
def test_records_and_the_chosen_round() -> None:
    f, targets = federation()
    G, wanted, choice = plain.named(f, f.state.row), dict[tuple[int, str, int, str, str], float](), {}

    def note(finished: int) -> None:
        sets = [(k, split, one.split(split)) for k, one in enumerate(f.clients) for split in ("val", "test")]
        for client, split, at in [*sets, (-1, "target", targets[0]), (-2, "target", targets[1])]:
            accuracy, loss = measured(f, G, at)
            wanted[finished, "post_agg", client, split, "accuracy"] = accuracy
            wanted[finished, "post_agg", client, split, "loss"] = loss
        validation = [wanted[finished, "post_agg", k, "val", "accuracy"] for k in range(3)]
        choice[finished] = sum(p * one for p, one in zip(plain.by_size([0, 1, 2]), validation, strict=True))
        models[finished] = G

    models: dict[int, plain.Tensors] = {}
    note(0)
    for t in range(ROUNDS):
        chosen, up = plain.active(f, t), []
        seen_by_all = 0
        for k in chosen:
            P, momentum, epoch, total, seen = plain.copied(G), plain.Tensors(), -1, 0.0, 0
            for new_epoch, x, y in plain.batches(f, k, t):
                epoch += new_epoch
                plain.leaves(P)
                loss = plain.cross_entropy(plain.logits(P, x, True), y)
                plain.descend(P, loss, 0.2 * 0.5 ** ((2 * t + epoch) // 3), momentum, RUN.local)
                total, seen = total + loss.item() * len(y), seen + len(y)
            wanted[t + 1, "train", k, "train", "loss"] = total / seen
            seen_by_all += seen
            up.append(P)
        G = plain.average(up, plain.by_size(chosen))
        wanted[t + 1, "cost", -1, "", "images"] = seen_by_all
        for way in ("forward_passes", "backward_passes"):  # the plain step takes one of each for an image
            wanted[t + 1, "cost", -1, "", way] = seen_by_all
        for way in ("bytes_down", "bytes_up"):
            wanted[t + 1, "cost", -1, "", way] = 2 * 8 * sum(value.numel() for value in G.values())
        if (t + 1) % 2 == 0 or t + 1 == ROUNDS:
            note(t + 1)
    finish(f)
    keys = ("round", "stage", "client", "split", "metric")
    found = {tuple(row[key] for key in keys): row["value"] for row in f.records.rows if row["stage"] != "machine"}  # fmt: skip
    assert set(found) == set(wanted)
    assert dict(found.items()) == pytest.approx(wanted, rel=1e-7)
    assert len(set(choice.values())) > 2
    for tie, place in (("first", 0), ("later", -1)):
        best = [finished for finished, value in choice.items() if math.isclose(value, max(choice.values()))]
        assert f.evaluator.selection.round[tie] == best[place]
        assert f.evaluator.selection.value[tie] == pytest.approx(max(choice.values()), abs=1e-9)
        kept = plain.named(f, f.evaluator.selection.best_weights[tie]["row"])
        assert plain.far(kept, models[best[place]]) < 1e-8
