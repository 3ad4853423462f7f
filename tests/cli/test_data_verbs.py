"""The verbs from fetch to partition, on the command line."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from click.testing import Result

from fedshift.common.parquet import read_columns
from fedshift.planning import planfile
from fedshift.spec import Division, RunSpec, closed
from fedshift.spec.resolve import complete, resolve_division
from tests.conftest import ROOT
from tests.data.conftest import plant
from tests.verbs import done, fedshift, refused


def by_hand(root: Path, **division: object) -> Result:
    """`fedshift partition --spec` of a file with these keys."""
    file = root / "division.yaml"
    file.write_text(yaml.safe_dump(division))
    return fedshift(root, "partition", "--spec", str(file))


@pytest.mark.slow
def test_digits_from_fetch_to_partition(tmp_path: Path) -> None:
    assert "nothing to fetch" in fedshift(tmp_path, "fetch", "digits").output
    for verb in ("verify", "prepare"):
        done(fedshift(tmp_path, verb, "digits"))
    chosen = {"scheme": "domains_per_client", "params": {"d": 2}, "fractions": [0.9, 0.1, 0]}
    result = by_hand(tmp_path, data={"dataset": "digits", "target": "plain"}, partition=chosen)
    made = Path(result.stdout.strip())
    table = pd.read_parquet(made)
    assert table.groupby("client").size()[-1] == 454
    assert set(table["split"]) == {"train", "val", "target"}
    _, facts = read_columns(made, "")
    assert set(facts["data"]) == {"dataset", "release", "target", "prepare"}  # not what the network sees
    # a parameter at its default names the same file as none
    named = {"scheme": "domains_per_client"}, {"scheme": "domains_per_client", "params": {"d": 1}}
    one, other = (by_hand(tmp_path, data={"dataset": "digits"}, partition=of).output for of in named)
    assert one == other


def test_twins_in_several_domains_and_classes_are_counted_and_those_of_the_target_left_out(
    tmp_path: Path,
) -> None:
    """A domain that is all copies: 4 of A's images lie in B, 1 of these under another class; 1 more is double inside A."""
    root, tree = tmp_path / "project", plant(tmp_path / "tree", ["A", "C"], "xy", each=8)
    root.mkdir()
    for label in "xy":
        (tree / "B" / label).mkdir(parents=True)
    for source, copy in (("A/x/0", "B/x/0"), ("A/x/1", "B/x/1"), ("A/y/0", "B/y/0"), ("A/y/1", "B/x/7")):
        shutil.copy(tree / f"{source}.png", tree / f"{copy}.png")
    shutil.copy(tree / "A" / "x" / "5.png", tree / "A" / "x" / "double.png")
    fedshift(root, "fetch", "folder", "--release", "mine", "--from", str(tree))
    result = fedshift(root, "verify", "folder", "--release", "mine").output
    for said in (
        "5 groups, 5 surplus",
        "4 of these groups in several domains",
        "1 of these groups in several classes",
    ):
        assert said in result
    assert result.index("A/x/0.png = B/x/0.png") < result.index("A/x/5.png = A/x/double.png")
    options = ["folder", "--release", "mine"]
    fedshift(root, "prepare", *options)
    data = {"dataset": "folder", "release": "mine"}
    for groups, held, said in (("apart", 33, "4 images, kept"), ("together", 29, "4 images, left out")):
        made = by_hand(root, data=data | {"target": "B"}, partition={"groups": groups})
        assert said in made.output
        path = Path(made.stdout.strip())
        assert (pd.read_parquet(path)["client"] >= 0).sum() == held
        assert read_columns(path, "")[1]["twins"] == 4
    path.write_bytes(path.read_bytes()[:100])  # cut short: it counts as missing
    assert "folder" in done(fedshift(root, "list", "datasets"))
    (root / "patients.csv").write_text(
        "path,group\n" + "".join(f"{image.relative_to(tree).as_posix()},P\n" for image in tree.rglob("*.png"))
    )
    grouped = by_hand(root, data=data | {"target": "C"}, partition={"groups": {"file": "patients.csv"}})
    assert "has changed since" not in grouped.output
    assert "4 images, " not in by_hand(root, data=data | {"target": "C"}).output


def test_mistakes_are_told_with_a_cure(tmp_path: Path) -> None:
    for arguments, text in (
        (["fetch", "pasc"], "Did you mean 'pacs'?"),
        (["prepare", "digits", "--px", "4"], "greater than or equal to 8"),
        (["prepare", "digits/32-0"], "Give one (fedshift plan --print path), or the data set's name alone."),
        (["partition"], "Give one (fedshift plan --print path), or --spec."),
        (["verify", "pacs"], "fedshift fetch pacs"),
    ):
        refused(fedshift(tmp_path, *arguments), text)
    digits = {"dataset": "digits"}
    for partition, text in (
        ({"scheme": "domain_per_clients"}, "Did you mean 'domain_per_client'?"),
        ({"params": {"d": 2}}, "partition.params: unknown key 'd'"),
        ({"modify": {"label_shifts": {}}}, "Did you mean 'label_shift'?"),
    ):
        refused(by_hand(tmp_path, data=digits, partition=partition), text)
    refused(by_hand(tmp_path, data=digits | {"release": "cleaned"}), "unknown release of digits 'cleaned'")
    smaller = digits | {"prepare": {"px": 48}}
    refused(by_hand(tmp_path, data=smaller), "fedshift prepare digits --release original --px 48")


PLANNED = """\
title: Planned
protocol: digits
spec: {data: {prepare: {px: 16}, input_px: 16}, partition: {scheme: clients_per_domain, params: {clients: 6}, modify: {few_shot_target: {each: 3}}}}
methods: {fedavg: , fedprox: }
axes: {target: [plain, [ink, texture]], seed: [3, 4]}
"""


def test_what_is_planned_is_made_by_its_name(project: Path) -> None:
    """Images and partitions of a plan, all that runs need, by the names that they have there."""
    (project / "experiments" / "planned.yaml").write_text(PLANNED)
    path = project / fedshift(project, "plan", "planned", "--print", "path").output.strip()
    runs, (images,) = planfile.runs(path), planfile.load(path).images
    partitions = sorted({run.partition for run in runs})
    plan = ["--plan", str(path)]
    first, *_ = names = [
        name.removeprefix("data/partitions/").removesuffix(".parquet") for name in partitions
    ]
    assert len(names) == 4
    cure = "fedshift prepare digits --release original --px 16"
    refused(fedshift(project, "partition", first, *plan), cure)
    result = fedshift(project, "prepare", images.prepared.removeprefix("data/prepared/"), *plan)
    assert result.output.strip() == str(project / images.prepared) and result.exit_code == 0
    assert (project / images.prepared).with_suffix(".png").is_file()  # its domains side by side
    assert fedshift(project, "partition", first, *plan).stdout.strip() == str(project / partitions[0])
    assert not (project / partitions[1]).exists()
    result = fedshift(project, "partition", *plan)
    assert sorted(result.stdout.splitlines()) == [str(project / name) for name in partitions]
    run = next(run for run in runs if run.partition == partitions[0])
    _, facts = read_columns(project / partitions[0], "")
    assert facts["seed"] == run.seed and facts["partition"]["modify"] == {"few_shot_target": {"each": 3}}
    text = complete(RunSpec.model_validate_json(run.spec)).model_dump_json()
    (project / "spec.json").write_text(text)  # of a whole run, its defaults written out
    assert fedshift(project, "partition", "--spec", str(project / "spec.json")).stdout.strip() == (
        str(project / partitions[0])
    )


def test_a_name_that_is_not_planned_is_refused_with_the_nearest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "experiments" / "planned.yaml").write_text(PLANNED)
    path = project / fedshift(project, "plan", "planned", "--print", "path").output.strip()
    monkeypatch.setenv("FEDSHIFT_PLAN", str(path))
    run, (images,) = planfile.runs(path)[0], planfile.load(path).images
    name = run.partition.removeprefix("data/partitions/").removesuffix(".parquet")
    for arguments in (["partition", name[:-2]], ["prepare", images.prepared[len("data/prepared/") : -2]]):
        refused(fedshift(project, *arguments), f"Did you mean '{arguments[1]}")
    by_file = ["--spec", str(project / "experiments" / "planned.yaml")]
    refused(fedshift(project, "partition", name, *by_file), "Leave out DATASET/RECIPE")
    monkeypatch.setattr("fedshift.spec.settings.ENGINE_VERSION", 99)
    for arguments in (["partition", name], ["prepare", images.prepared.removeprefix("data/prepared/")]):
        refused(fedshift(project, *arguments), "Run snakemake again: it plans again.")


def test_the_partition_that_the_page_documents_is_one() -> None:
    page = (ROOT / "docs" / "partitions.md").read_text()
    block = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    division = resolve_division(closed(Division, yaml.safe_load(block[1]), "page"), "page")
    assert division.data.target == "photo"
