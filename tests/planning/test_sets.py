"""Sets of params.yaml stand for their experiments, wherever an experiment is named."""

from __future__ import annotations

import re

import pytest
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available, load
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

SHIPPED = yaml.safe_load((ROOT / "params.yaml").read_text())


def asked(*names: str) -> tuple[str, ...]:
    return Request.of({**SHIPPED, "experiments": list(names)}, ROOT).experiments


@pytest.mark.parametrize("name", SHIPPED["sets"])
def test_every_set_that_is_shipped_names_experiments(name: str) -> None:
    assert set(asked(name)) <= set(available(Workspace(ROOT)))


def test_the_papers_are_all_that_one_paper_each_has() -> None:
    each = {name for paper in ("fdse", "fedrd", "hfedf", "stablefdg") for name in asked(f"{paper}-tables")}
    workspace = Workspace(ROOT)
    whole = [
        name for name in available(workspace) if any(x.printed for x in load(workspace, name).tables.values())
    ]
    assert asked("papers") == tuple(whole)
    assert set(whole) == each


def test_a_set_and_an_experiment_side_by_side() -> None:
    request = Request.of({"experiments": ["night", "b"], "sets": {"night": ["a", "b"]}}, ROOT)
    assert request.experiments == ("a", "b")
    assert request == Request(("a", "b"))  # what a set is called is no part of a plan


def test_a_set_that_is_no_list_is_refused() -> None:
    with pytest.raises(FedshiftError, match="sets"):
        Request.of({"experiments": ["night"], "sets": {"night": "a"}}, ROOT)


def test_a_pattern_that_meets_nothing_is_refused_by_who_reads_it() -> None:
    assert asked("hfedf/tabel*") == ("hfedf/tabel*",)


@pytest.mark.parametrize("name", ["hfedf/**", "**", "hf**/table2"])
def test_what_is_no_pattern_is_refused(name: str) -> None:
    """Python 3.13 takes it for a pattern, and ended in a traceback before."""
    with pytest.raises(
        FedshiftError, match=f"experiments: '{re.escape(name)}' is no pattern\n.*between slashes"
    ):
        asked(name)


def test_two_stars_stand_for_folders() -> None:
    assert {"hfedf/table2", "fdse/table2"} <= set(asked("**/table2"))


def test_a_set_without_members_is_refused() -> None:
    with pytest.raises(FedshiftError, match="'experiments' names none: night has no member"):
        Request.of({"experiments": ["night"], "sets": {"night": []}}, ROOT)
