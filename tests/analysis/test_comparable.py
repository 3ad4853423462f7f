"""Whether a printed value may stand beside a cell follows from what both were trained with."""

from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.published import Row, Settings, compare, differences, find, resolved, setting
from fedshift.common.files import canonical_json
from fedshift.common.yaml_file import read
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.protocols import Protocol, merge, nested, printed_grid, protocol
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

from .conftest import REFERENCE, Project, accuracy

ROOT = REFERENCE.parent
OFFICE = Row(
    "FDSE", "office_caltech10", "alexnet_bn", "personal_all_clients", "domain_per_client", "fedavg", "default"
)


def reasons(name: str, method: str, metric: str = "ood", **values: Any) -> list[str]:
    """Why the runs of a cell of an experiment are not the printed row's."""
    experiment = load(Workspace(ROOT), name)
    printed = find(Workspace(ROOT), experiment, method, values, metric)
    assert printed is not None
    runs = pd.DataFrame(
        {
            "spec": cell.spec.model_dump_json(),
            "adaptation": canonical_json(cell.task.declared()) if cell.task else None,
        }
        for cell in expand(Workspace(ROOT), experiment)
        if cell.label == method and all(cell.axes[axis] == value for axis, value in values.items())
    )
    return differences(Workspace(ROOT), protocol(Workspace(ROOT), experiment.protocol), printed, runs)


@pytest.mark.parametrize(
    ("name", "method", "metric", "values"),
    [
        ("fdse/table1_office", "fedavg", "all", {}),
        ("fdse/table1_office", "fdse-released", "all", {}),
        ("fdse/table1", "fdse-released", "avg", {"data.dataset": "domainnet10"}),
        ("fdse/table1", "fedbn", "all", {"data.dataset": "domainnet10"}),
        ("fdse/table3_office", "A1B1C0", "avg", {}),
        ("fdse/table2_office", "fdse", "ood", {"target": "webcam"}),
        ("fdse/table2_office", "fdse-adapted", "ood", {}),
        ("hfedf/table2", "central", "id", {"d": 3}),
        ("hfedf/table2", "hfedf", "ood", {"d": 2, "target": "photo"}),
        ("hfedf/table5", "without-ema", "ood", {"data.dataset": "pacs", "d": 1}),
    ],
)
def test_the_papers_experiment_is_comparable(
    name: str, method: str, metric: str, values: dict[str, Any]
) -> None:
    assert reasons(name, method, metric, **values) == []


def test_fdse_s_numbers_are_of_the_released_code() -> None:
    """On Office-Caltech10 the text differs in nine of its settings, one of them, lambda, within its grid."""
    others = [
        "activation",
        "fc_identity",
        "concat_bias",
        "padding",
        "beta",
        "consensus",
        "similarity",
        "consistency",
    ]
    found = [reason.split()[0] for reason in reasons("fdse/table1_office", "fdse", "all")]
    assert found == [*(f"method.params.{name}" for name in others), "local.schedule.gamma"]
    assert (
        find(Workspace(ROOT), load(Workspace(ROOT), "fdse/table1"), "fdse", {"data.dataset": "pacs"}, "all")
        is None
    )


def test_archived_runs_with_filled_batches_are_not_the_papers() -> None:
    assert reasons("fdse/table1_office_tf32", "fedbn", "all") == ["local.batch_rule wrap, paper keep_last"]


def test_ten_rounds_of_five_hundred_are_not(project: Project) -> None:
    found = reasons("fdse/office_quick", "fedavg", "all")
    assert "federation.rounds 10, paper 500" in found
    assert "local.precision bf16, paper fp32" in found
    experiment = load(Workspace(ROOT), "fdse/office_quick")
    project.declare(
        "fdse/office_quick", **experiment.model_dump(include={"title", "protocol", "spec", "axes", "tables", "published"}), methods={"fedavg": None}
    )  # fmt: skip
    collected = project.add_all({1: accuracy((0.5, 0.5))})
    cells = tables.cells(project.workspace, collected, collected.experiment.tables["office"])
    assert cells[["published", "published_std", "difference"]].isna().all(axis=None)
    assert cells["orientation"].tolist() == [82.60, 86.26]
    stem = tables.write(project.workspace, collected)
    text = stem.with_suffix(".md").read_text()
    assert "· paper" not in text and "· difference" not in text
    assert "| · orientation | 82.60 ± 3.14 | 86.26 ± 2.54 |" in text
    note = next(line for line in text.splitlines() if line.startswith("- Orientation:"))
    assert "federation.rounds 10, paper 500" in note
    assert text.count("federation.rounds 10, paper 500") == 1
    csv = pd.read_csv(stem.with_suffix(".csv"))
    assert csv["published"].isna().all() and csv["orientation"].tolist() == [82.60, 86.26]


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
    theirs = resolved(Workspace(ROOT), Row(paper, "pacs", backbone, protocol, partition, method, "default"))
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
        ("seed", 7, None),
        ("evaluation.every", 10, None),
        ("evaluation.keep", "none", None),
    ],
)
def test_a_setting_makes_another_experiment_or_none(key: str, value: Any, reason: str | None) -> None:
    theirs = resolved(Workspace(ROOT), OFFICE)
    ours = RunSpec.model_validate(merge(theirs.model_dump(mode="json"), nested({key: value})))
    found = [f"{name} {one}, paper {other}" for name, one, other in compare(ours, theirs)]
    assert found == ([reason] if reason else [])


def test_tf32_is_of_the_class_of_fp32() -> None:
    theirs = resolved(Workspace(ROOT), OFFICE)
    tf32 = theirs.local.model_copy(update={"precision": "tf32"})
    assert [*compare(theirs.model_copy(update={"local": tf32}), theirs)] == []


def test_a_searched_value_may_be_another_of_the_grid() -> None:
    theirs = resolved(Workspace(ROOT), OFFICE._replace(algo="fedprox"))
    grid = printed_grid(Workspace(ROOT), "fdse", "fedprox")
    for mu, expected in ((1.0, []), (0.5, ["method.params.mu"])):
        method = theirs.method.model_copy(update={"params": {"mu": mu}})
        found = compare(theirs.model_copy(update={"method": method}), theirs, grid=grid)
        assert [key for key, *_ in found] == expected


def test_an_average_over_fewer_domains_is_not_the_papers() -> None:
    experiment = load(Workspace(ROOT), "hfedf/table2")
    printed = find(Workspace(ROOT), experiment, "fedavg", {"d": 1}, "ood")
    assert printed is not None
    specs = [
        cell.spec.model_dump_json()
        for cell in expand(Workspace(ROOT), experiment)
        if cell.label == "fedavg" and cell.axes["d"] == 1 and cell.axes["target"] in ("photo", "sketch")
    ]
    runs = pd.DataFrame({"spec": specs, "adaptation": None})
    (reason,) = differences(Workspace(ROOT), protocol(Workspace(ROOT), "hfedf"), printed, runs)
    assert reason == "data.target photo, sketch, paper art_painting, cartoon, photo, sketch"


def test_another_rule_for_the_round_and_a_missing_adaptation_are_told() -> None:
    experiment = load(Workspace(ROOT), "fdse/table2_office")
    printed = find(Workspace(ROOT), experiment, "fdse-adapted", {"target": "webcam"}, "ood")
    assert printed is not None
    cells = [
        cell
        for cell in expand(Workspace(ROOT), experiment)
        if cell.label == "fdse" and cell.axes["target"] == "webcam"
    ]
    runs = pd.DataFrame({"spec": [cell.spec.model_dump_json() for cell in cells], "adaptation": None})
    rule: Protocol = protocol(Workspace(ROOT), "fdse_unseen").model_copy(update={"select": "last"})
    assert differences(Workspace(ROOT), rule, printed, runs) == [
        "adapted by nothing, paper fdse",
        "select last, paper best_first",
    ]


def test_a_variant_that_nobody_wrote_down_is_not_comparable() -> None:
    assert setting(Workspace(ROOT), OFFICE._replace(variant="new")) is None
    assert setting(Workspace(ROOT), OFFICE._replace(backbone="new")) is None


def test_every_printed_accuracy_has_settings() -> None:
    """Each row of published.csv resolves to a spec that can run; but those of a network that nobody has here."""
    table = pd.read_csv(REFERENCE / "published.csv", low_memory=False)
    table = table[table["metric_id"].str.startswith("acc_", na=False)]
    rows = {
        Row(*map(str, values)) for values in table[[*Row._fields]].drop_duplicates().itertuples(index=False)
    }
    unknown = {row for row in rows if setting(Workspace(ROOT), row) is None}
    assert {row.backbone for row in unknown} == {"vit_b8"}
    for row in rows - unknown:
        assert resolved(Workspace(ROOT), row).data.dataset == row.ds_id


def test_the_settings_name_no_row_that_is_not_printed() -> None:
    known = Settings.model_validate(read(REFERENCE / "published.yaml"))
    table = pd.read_csv(REFERENCE / "published.csv", low_memory=False).astype(str)
    places = {*zip(table["paper"], table["protocol"] + "/" + table["partition"], strict=True)}
    assert {(paper, place) for paper, inner in known.protocols.items() for place in inner} <= places
    assert {*known.backbones} <= {*table["backbone"]}
    variants = {*zip(table["algo"], table["variant"], strict=True)}
    assert {(method, name) for method, inner in known.variants.items() for name in inner} <= variants
