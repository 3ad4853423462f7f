"""What every evaluation must hold, and which model of a run it sees: walks the registries."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names
from fedshift.evaluations.base import Evaluation, Trained
from fedshift.federation.evaluate import evaluate
from fedshift.federation.layout import Network
from fedshift.federation.loop import Federation
from fedshift.federation.records import KEYS
from fedshift.spec import RunSpec
from fedshift.spec.block import params
from fedshift.storage.rundir import RunDirectory
from fedshift.testing.toys import finish, method, small, spec
from fedshift.training import weights

RUN = spec(federation={"rounds": 2})
NEEDED = {"fdse": "fdse", "attention": "stablefdg"}  # evaluation -> the method that makes what it looks at
PLACE = ("stage", "model", "member", "client", "split")


def restored(
    name: str, folder: Path, run: RunSpec = RUN, selection: str = "last"
) -> tuple[Federation, Trained]:
    """A method's run, and what an evaluation sees of the weights that it kept of a selection."""
    ended = finish(small(run, method(name)))
    files = weights.write(ended, folder / "weights")
    summary: dict[str, Any] = {
        "spec": run.model_dump(mode="json"),
        "best_round": ended.evaluator.selection.round,
        "weights": {key: file["file"] for key, file in files.items()},
        "hashes": {f"weights_{key}": file["sha256"] for key, file in files.items()},
    }
    new = small(run, method(name))
    kept = weights.restore(new, RunDirectory(folder), summary, selection)
    targets = [index for *_, index in new.evaluator._target]
    return ended, Trained(
        spec=run,
        round=weights.round_of(summary, selection),
        network=Network(new.build(), new.layout, new.device),
        layout=new.layout,
        samples=new.worker.samples,
        precision=new.worker.precision,
        classes=["dark", "bright"],
        domains=lambda: [f"domain{place % 3}" for place in range(len(new.worker.samples.labels))],
        models=lambda: weights.models(new, kept, targets),
        reported=new.evaluator.reported,
    )


def table(name: str, run: Trained, of: str = "fedavg", **chosen: Any) -> pa.Table:
    kind: type[Evaluation] = get("evaluations", name)
    return kind(params(kind, chosen), method(of)).table(run)


@pytest.mark.parametrize("name", names("methods"))
def test_the_models_of_a_run_are_those_that_it_tested(name: str, tmp_path: Path) -> None:
    """Of every method, where two of three clients never train: each model has the loss, and each
    confusion the counts by class, that the run recorded of the last round. Tested models that are left out:
    clients' own ones that the aggregation has changed, and what clients had received that never trained."""
    ended, run = restored(name, tmp_path, spec(federation={"rounds": 2, "participation": 0.34}))
    recorded = {
        tuple(row[key] for key in PLACE): (row["n"].tolist(), row["correct"].tolist())
        for row in ended.statistics.rows
        if row["round"] == 2
    }
    found = {}
    for row in table("confusion", run, name, splits=["val", "test", "target"]).to_pylist():
        counts = np.reshape(row["counts"], (2, 2))
        assert row["classes"] == ["dark", "bright"] and row["round"] == 2
        found[tuple(row[key] for key in PLACE)] = counts.sum(1).tolist(), counts.diagonal().tolist()
    assert found == {place: recorded[place] for place in found}
    assert losses(run) == pytest.approx(
        {place: recorded_losses(ended, 2)[place] for place in losses(run)}, rel=1e-6
    )
    slot, private = ended.method.evaluates not in ("model", "shared"), ended.state.private.size > 0
    never = {k for k, visits in enumerate(ended.state.visits) if not visits}
    assert len(never) == (2 if ended.state.clients == 3 else 0)
    changed = (
        {0, 1, 2} if private and ended.method.evaluates == "model" and ended.state.shared.size else set()
    )
    lost = {place for place in recorded if place not in found}
    assert {place[:4] for place in lost} == {
        ("post_train", "personal", 0, k) for k in (never if slot else changed)
    }
    assert {place[4] for place in found} == {"val", "test", "target"}


def losses(run: Trained) -> dict[tuple[Any, ...], float]:
    """The loss of every model on each of its sets, from the weights."""
    return {
        (kept.stage, kept.model, kept.member, scored.client, scored.split): scored.loss
        for kept in run.models()
        for scored in evaluate(run.network, kept.row, run.samples, kept.sets, run.precision)
    }


def recorded_losses(ended: Federation, finished: int) -> dict[tuple[Any, ...], float]:
    """The losses that the run recorded of a round's tested models."""
    return {
        tuple(row[key] for key in PLACE): row["value"]
        for row in ended.records.rows
        if (row["round"], row["metric"]) == (finished, "loss") and row["stage"] != "train"
    }


@pytest.mark.parametrize("name", ["fedavg", "fedbn"])
def test_clients_models_that_were_kept_are_those_after_their_training(name: str, tmp_path: Path) -> None:
    """Each the result of the client's own last round from what it had received; of FedBN the run tested it."""
    run = spec(federation={"rounds": 2}, evaluation={"keep": "clients"})
    ended, seen = restored(name, tmp_path, run)
    kept = seen.of_clients("post_train")
    assert [*kept] == [0, 1, 2]
    assert all(kept[k].row.equal(ended.state.slots["trained"][k]) for k in kept)
    rows = torch.stack([kept[k].row for k in kept])
    assert rows.std(0).max() > 0
    if name == "fedavg":
        torch.testing.assert_close((ended.server.p[:, None] * rows).sum(0), ended.state.row)
        assert all(
            one.model == "global" and one.row.equal(ended.state.row) for one in seen.of_clients().values()
        )
    else:
        own = {place: loss for place, loss in losses(seen).items() if place[:2] == ("post_train", "personal")}
        assert own == pytest.approx({place: recorded_losses(ended, 2)[place] for place in own}, rel=1e-6)
        assert {place[3] for place in own} == {0, 1, 2}
    _, without = restored(name, tmp_path / "without")
    with pytest.raises(FedshiftError, match="has no saved model of its clients at the stage 'post_train'"):
        without.of_clients("post_train")


@pytest.mark.parametrize("name", ["ditto", "partialfed"])
def test_before_the_first_round_every_clients_own_model_is_the_start(name: str, tmp_path: Path) -> None:
    """Nothing is learnt, so the untrained model is the best: tested, kept and evaluated at every client."""
    run = spec(local={"lr": 1e-12}, federation={"rounds": 1, "participation": 0.34})
    ended, start = restored(name, tmp_path, run, "best_first")
    assert start.round == 0
    assert losses(start) == pytest.approx(recorded_losses(ended, 0), rel=1e-6)
    own = {place[3] for place in losses(start) if place[:2] == ("post_train", "personal")}
    assert own == {0, 1, 2}


def test_a_run_that_reports_its_start_says_why_no_client_has_trained(tmp_path: Path) -> None:
    run = spec(local={"lr": 1e-12}, federation={"rounds": 1}, evaluation={"keep": "clients"})
    _, start = restored("fedavg", tmp_path, run, "best_first")
    assert start.round == 0
    with pytest.raises(FedshiftError, match="reports its start, where no client"):
        start.of_clients("post_train")


@pytest.mark.parametrize("name", names("evaluations"))
def test_an_evaluation_is_the_same_twice_and_changes_no_weights(name: str, tmp_path: Path) -> None:
    of = NEEDED.get(name, "fedbn")
    _, run = restored(of, tmp_path)
    before = [kept.row.clone() for kept in run.models()]
    state = torch.get_rng_state()
    kind: type[Evaluation] = get("evaluations", name)
    assert kind.name == name and not {*KEYS} & {*kind.columns}
    kind.check(run.network.model, name)
    one, other = (table(name, run, of) for _ in range(2))
    assert one.num_rows and one.schema.names == [*KEYS, *kind.columns]
    left_out = ["time"] if "time" in kind.columns else []
    assert one.drop_columns(left_out).equals(other.drop_columns(left_out))
    assert torch.equal(torch.get_rng_state(), state)
    after = [kept.row for kept in run.models()]
    assert all(torch.equal(row, again) for row, again in zip(before, after, strict=True))
    assert kind.line(one)


def test_features_are_what_the_head_sees(tmp_path: Path) -> None:
    """At most 3 images of each client and of the target, in the order of their positions; the head gives the prediction."""
    _, run = restored("fedavg", tmp_path)
    frame = table("features", run, images=3).to_pandas()
    assert frame.groupby(["client", "split"]).size().to_dict() == dict.fromkeys(
        [(0, "test"), (1, "test"), (2, "test"), (-1, "target")], 3
    )
    (kept,) = run.models()
    positions = {(client, split): index.tolist() for client, split, index in kept.sets}
    for place, group in frame.groupby(["client", "split"]):
        assert group["sample"].is_monotonic_increasing and {*group["sample"]} <= {*positions[place]}
    samples = torch.tensor(frame["sample"].to_numpy().astype("int64"))
    model = run.network.bind(kept.row).model.eval()
    with torch.no_grad():
        feature, logits = model(run.samples.evaluate(run.samples.take(samples)[0]))
    np.testing.assert_allclose(np.stack(frame["feature"]), feature.numpy(), rtol=1e-4, atol=1e-5)
    assert frame["predicted"].tolist() == logits.argmax(1).tolist()
    assert frame["label"].tolist() == run.samples.labels[samples].tolist()
    assert frame["domain"].tolist() == [f"domain{sample % 3}" for sample in frame["sample"]]


def test_the_images_of_features_depend_on_the_seed_alone(tmp_path: Path) -> None:
    """Not on the method, nor on how many are asked for of another client; fewer images are all of them."""
    _, run = restored("fedavg", tmp_path / "one")
    _, other = restored("fedprox", tmp_path / "other")
    drawn, again = (table("features", one, images=2)["sample"].to_pylist() for one in (run, other))
    assert drawn == again
    assert table("features", run, images=2, seed=1)["sample"].to_pylist() != drawn
    every = table("features", run, images=1000).to_pandas()
    assert every.groupby("client").size().to_dict() == {-1: 12, 0: 5, 1: 4, 2: 3}
