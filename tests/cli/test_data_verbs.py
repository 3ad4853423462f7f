"""The verbs from fetch to partition, on the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
from click.testing import CliRunner, Result

from fedshift.cli import main
from fedshift.data.columns import read_columns
from fedshift.identity import partition_name
from fedshift.spec import Division
from tests.data.conftest import plant
from tests.federation.toys import spec


def call(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--root", str(root), *arguments])


def test_digits_from_fetch_to_partition(tmp_path: Path) -> None:
    assert "nothing to fetch" in call(tmp_path, "fetch", "digits").output
    for verb in ("verify", "prepare"):
        assert call(tmp_path, verb, "digits").exit_code == 0
    options = [
        "--scheme",
        "domains_per_client",
        "--param",
        "d=2",
        "--target",
        "plain",
        "--fractions",
        ".9,.1,0",
    ]
    told = call(tmp_path, "partition", "digits", *options)
    assert told.exit_code == 0, told.output
    table = pd.read_parquet(told.output.strip())
    assert table.groupby("client").size()[-1] == 454
    assert set(table["split"]) == {"train", "val", "target"}
    _, facts = read_columns(Path(told.output.strip()), "")
    assert set(facts["data"]) == {
        "dataset",
        "release",
        "target",
        "prepare",
    }  # what the network sees is not asked for
    # a parameter at its default names the same file as none
    assert call(tmp_path, "partition", "digits", "--scheme", "domains_per_client").output == (
        call(tmp_path, "partition", "digits", "--scheme", "domains_per_client", "--param", "d=1").output
    )


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
    call(root, "fetch", "folder", "--release", "mine", "--from", str(tree))
    told = call(root, "verify", "folder", "--release", "mine").output
    assert "5 groups, 5 surplus" in told
    assert "4 of these groups in several domains" in told and "1 of these groups in several classes" in told
    assert told.index("A/x/0.png = B/x/0.png") < told.index("A/x/5.png = A/x/double.png")
    options = ["folder", "--release", "mine"]
    call(root, "prepare", *options)
    for groups, held, said in (("apart", 33, "4 images, kept"), ("together", 29, "4 images, left out")):
        done = call(root, "partition", *options, "--target", "B", "--groups", groups)
        assert said in done.output
        path = Path(done.stdout.strip())
        assert (pd.read_parquet(path)["client"] >= 0).sum() == held
        assert read_columns(path, "")[1]["twins"] == 4
    assert "images, " not in call(root, "partition", *options, "--target", "C").output


def test_mistakes_are_told_with_a_cure(tmp_path: Path) -> None:
    for arguments, text in (
        (["fetch", "pasc"], "Did you mean 'pacs'?"),
        (["partition", "digits", "--param", "d:2"], "not KEY=VALUE"),
        (["partition", "digits", "--scheme", "domain_per_clients"], "Did you mean 'domain_per_client'?"),
        (["partition", "digits", "--fractions", ".5,.1,.1"], "must sum to 1"),
        (["prepare", "digits", "--px", "4"], "greater than or equal to 8"),
        (["partition", "digits", "--px", "48"], "fedshift prepare digits --release original --px 48"),
        (["verify", "pacs"], "fedshift fetch pacs"),
    ):
        told = call(tmp_path, *arguments)
        assert told.exit_code == 2 and text in told.output, (arguments, told.output)


def test_partition_of_a_run_is_that_of_its_division_alone() -> None:
    run = spec()
    data = run.data.model_dump(include={"dataset", "release", "target", "prepare"})
    alone = Division.model_validate({"data": data, "partition": run.partition.model_dump(), "seed": run.seed})
    assert partition_name(run) == partition_name(alone)
    other = run.model_copy(update={"local": run.local.model_copy(update={"lr": 9.0})})
    assert partition_name(other) == partition_name(run)
    assert partition_name(alone.model_copy(update={"seed": 7})) != partition_name(alone)
