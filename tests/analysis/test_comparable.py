"""Whether a printed value may stand beside a cell follows from what both were trained with."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.published import Row, compare, differences, find, resolved, setting
from fedshift.common.files import canonical_json
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.experiments.protocols import Protocol, merge, nested, printed_grid, protocol
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

from .conftest import REFERENCE

PROJECT = Workspace(REFERENCE.parent)
Trained = Callable[[Cell], bool]
OFFICE = Row("FDSE", "office_caltech10", "alexnet_bn", "personal_all_clients", "domain_per_client", "fedavg", "default")  # fmt: skip


def reasons(
    name: str, method: str, metric: str = "ood", trained: Trained = lambda cell: True, **values: Any
) -> list[str]:
    """Why the runs of a cell of an experiment, or those of them that are trained, are not the printed row's."""
    experiment = load(PROJECT, name)
    printed = find(PROJECT, experiment, method, values, metric)
    assert printed is not None
    chosen = [
        cell
        for cell in expand(PROJECT, experiment)
        if cell.label == method
        and all(cell.axes[axis] == value for axis, value in values.items())
        and trained(cell)
    ]
    specs = [cell.spec.model_dump_json() for cell in chosen]
    tasks = [canonical_json(cell.task.declared()) if cell.task else None for cell in chosen]
    runs = pd.DataFrame({"spec": specs, "adaptation": tasks})
    return differences(PROJECT, protocol(PROJECT, experiment.protocol), printed, runs)


def test_fdse_s_numbers_are_of_the_released_code() -> None:
    """On Office-Caltech10 the text differs in nine of its settings, one of them, lambda, within its grid."""
    others = "activation fc_identity concat_bias padding beta consensus similarity consistency"
    found = [reason.split()[0] for reason in reasons("fdse/table1_office", "fdse", "all")]
    assert found == [*(f"method.params.{name}" for name in others.split()), "local.schedule.gamma"]
    assert find(PROJECT, load(PROJECT, "fdse/table1"), "fdse", {"data.dataset": "pacs"}, "all") is None


def test_an_average_over_fewer_domains_is_not_the_papers() -> None:
    def few(cell: Cell) -> bool:
        return cell.axes["target"] in ("photo", "sketch")

    (reason,) = reasons("hfedf/table2", "fedavg", trained=few, d=1)
    assert reason == "data.target photo, sketch, paper art_painting, cartoon, photo, sketch"


def test_a_quick_experiment_and_archived_runs_with_filled_batches_are_not_the_papers() -> None:
    quick = {"federation.rounds 10, paper 500", "local.precision bf16, paper fp32"}
    assert quick <= {*reasons("fdse/office_quick", "fedavg", "all")}
    assert reasons("fdse/table1_office_tf32", "fedbn", "all") == ["local.batch_rule wrap, paper keep_last"]


@pytest.mark.parametrize(
    ("paper", "backbone", "protocol", "partition", "method"),
    [
        ("FedRD", "resnet18_or_50_unstated", "lodo", "domain_per_client_label_shift", "fedrd"),
        ("StableFDG", "resnet18", "lodo", "single30", "stablefdg"),
    ],
)
def test_another_start_and_other_labels_are_another_experiment(
    paper: str, backbone: str, protocol: str, partition: str, method: str
) -> None:
    """What these papers' rows resolve to, whatever start their protocols declare, against the other start."""
    theirs = resolved(PROJECT, Row(paper, "pacs", backbone, protocol, partition, method, "default"))
    assert [*compare(theirs, theirs)] == []
    other = {"scratch": "imagenet", "imagenet": "scratch"}[theirs.model.init]
    ours = theirs.model_copy(update={"model": theirs.model.model_copy(update={"init": other})})
    assert [*compare(ours, theirs)] == [("model.init", other, theirs.model.init)]
    shifted = theirs.partition.model_copy(update={"modify": {"few_shot_target": {"each": 3}}})
    plain = theirs.partition.model_copy(update={"modify": {}})
    pair = [theirs.model_copy(update={"partition": one}) for one in (plain, shifted)]
    assert [*compare(*pair)] == [("modify", "none", "few_shot_target")]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("data.input_px", 128, "data.input_px 128, paper 256"),
        ("model.name", "digits_cnn", "model.name digits_cnn, paper alexnet_bn"),
        ("model.init", "imagenet", "model.init imagenet, paper scratch"),
        ("method.name", "fedbn", "method.name fedbn, paper fedavg"),
        ("local.epochs", 2, "local.epochs 2, paper 1"),
        ("local.precision", "bf16", "local.precision bf16, paper fp32"),
        ("local.schedule.gamma", 0.9998, "local.schedule.gamma 0.9998, paper 0.998"),
        ("federation.participation", 0.5, "federation.participation 0.5, paper 1.0"),
        ("partition.split", "official", "partition.split official, paper random"),
        ("partition.modify", {"few_shot_target": {"each": 3}}, "modify few_shot_target, paper none"),
        ("local.precision", "tf32", None),  # of the class of fp32
        ("seed", 7, None),
        ("evaluation.every", 10, None),
        ("evaluation.keep", "none", None),
    ],
)
def test_a_setting_makes_another_experiment_or_none(key: str, value: Any, reason: str | None) -> None:
    theirs = resolved(PROJECT, OFFICE)
    ours = RunSpec.model_validate(merge(theirs.model_dump(mode="json"), nested({key: value})))
    found = [f"{name} {one}, paper {other}" for name, one, other in compare(ours, theirs)]
    assert found == ([reason] if reason else [])


def test_a_searched_value_may_be_another_of_the_grid() -> None:
    theirs = resolved(PROJECT, OFFICE._replace(algo="fedprox"))
    grid = printed_grid(PROJECT, "fdse", "fedprox")
    for mu, expected in ((1.0, []), (0.5, ["method.params.mu"])):
        method = theirs.method.model_copy(update={"params": {"mu": mu}})
        found = compare(theirs.model_copy(update={"method": method}), theirs, grid=grid)
        assert [key for key, *_ in found] == expected


def test_another_rule_for_the_round_and_a_missing_adaptation_are_told() -> None:
    experiment = load(PROJECT, "fdse/table2_office")
    printed = find(PROJECT, experiment, "fdse-adapted", {"target": "webcam"}, "ood")
    assert printed is not None
    cells = (cell for cell in expand(PROJECT, experiment) if cell.label == "fdse")
    specs = [cell.spec.model_dump_json() for cell in cells if cell.axes["target"] == "webcam"]
    runs = pd.DataFrame({"spec": specs, "adaptation": None})
    rule: Protocol = protocol(PROJECT, "fdse_unseen").model_copy(update={"select": "last"})
    told = ["adapted by nothing, paper fdse", "select last, paper best_first"]
    assert differences(PROJECT, rule, printed, runs) == told


def test_a_variant_that_nobody_wrote_down_is_not_comparable() -> None:
    assert setting(PROJECT, OFFICE._replace(variant="new")) is None
    assert setting(PROJECT, OFFICE._replace(backbone="new")) is None
