"""The layers that papers print, against those of the networks that their experiments declare."""

import re

import pandas as pd
import pytest

from fedshift.analysis.layers import layer, printed_layer
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace

from .conftest import REFERENCE

WORKSPACE = Workspace(REFERENCE.parent)
TABLES = ["fdse/tableA5", "fdse/tableA6", "fdse/tableA7", "hfedf/table7", "hfedf/table8", "hfedf/table9"]
UNLIKE = {("A7", "layer2"), ("A7", "layer4")}  # experiments/fdse/tableA7.yaml says why


def layers(name: str) -> list[tuple[str, str, str, int]]:
    """Of each layer of an experiment's table: its name, ours and the paper's in words, our parameters."""
    experiment = load(WORKSPACE, name)
    (table,) = experiment.tables.values()
    spec = expand(WORKSPACE, experiment)[0].spec.model_dump_json()
    found = []
    for metric in table.metrics:
        part, _, number = column(metric).name.partition(".")
        ours = layer(WORKSPACE, experiment.paper, table.printed[0], f"{part}.{number}", spec)
        theirs = printed_layer(WORKSPACE, experiment.paper, table.printed[0], f"layer{number}")
        found.append((f"layer{number}", ours.text, theirs, ours.parameters))
    return found


@pytest.mark.parametrize("name", TABLES)
def test_layers_are_those_that_the_paper_prints(name: str) -> None:
    printed = name.partition("table")[2]
    unlike = {place for place, ours, theirs, _ in layers(name) if ours != theirs}
    assert unlike == {place for table, place in UNLIKE if table == printed}
    assert all(theirs for _, _, theirs, _ in layers(name))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("fdse/tableA5", 12_974_154),
        ("fdse/tableA6", 6_509_034),
        ("hfedf/table7", 928_199),
        ("hfedf/table8", 3 + 100 + 3 * 2_550 + 51 * 928_199),
        ("hfedf/table9", 9_395 + 4_097),
    ],
)
def test_all_parameters_are_in_some_layer(name: str, parameters: int) -> None:
    assert sum(count for *_, count in layers(name)) == parameters


def test_the_words_have_the_numbers_that_the_reference_transcribes() -> None:
    """Each number of two digits or more in a layer's note of published.csv; Flatten's is that of the linear
    layer after it.
    """
    rows = pd.read_csv(REFERENCE / "published.csv", dtype=str, keep_default_na=False)
    rows = rows[(rows["metric_id"] == "architecture") & ~rows["table"].isin(["A7", "8"])]
    for row in rows[~rows["note"].str.startswith("Flatten")].to_dict("records"):
        words = printed_layer(WORKSPACE, row["paper"], row["table"], row["variant"])
        ours = re.findall(r"\d+", words)
        numbers = [number for number in re.findall(r"\d+", row["note"]) if len(number) > 1]
        assert {*numbers} <= {*ours}, row["row_uid"]


def test_a_module_more_moves_all_layers_after_it() -> None:
    """FedAvg's network has a normalisation where FDSE's has it in its block."""
    experiment = load(WORKSPACE, "fdse/tableA5")
    spec = expand(WORKSPACE, experiment)[0].spec.model_dump_json()
    assert (
        layer(WORKSPACE, "FDSE", "A6", "model.2", spec).text
        != layer(WORKSPACE, "FDSE", "A5", "model.2", spec).text
    )
    assert layer(WORKSPACE, "FDSE", "A5", "model.10", spec) == ("", 0)
    last = layer(WORKSPACE, "FDSE", "A6", "model.9", spec).text
    assert last.endswith("Linear(1024, 10)") and last.count("Linear") == 3  # what is left over


@pytest.mark.parametrize(
    ("part", "message"), [("block", "makes no blocks"), ("hypernetwork", "has no hypernetwork")]
)
def test_a_network_that_a_method_has_not(part: str, message: str) -> None:
    spec = expand(WORKSPACE, load(WORKSPACE, "fdse/tableA5"))[0].spec.model_dump_json()
    with pytest.raises(FedshiftError, match=message):
        layer(WORKSPACE, "FDSE", "A7", f"{part}.1", spec)
