"""What params.yaml asks for is checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"experiments": ["one"], "pakc": 1}, "unknown key 'pakc'\n.*'pack'"),
        ({"experiments": []}, "names no experiment"),
        ({"experiments": ["one"], "pack": 0}, "'pack' cannot be 0"),
        ({"experiments": ["one"], "pack": True}, "'pack' cannot be True"),
        (
            {"experiments": ["one"], "hours": 0.5},
            "'hours' cannot be 0.5\n.*most hours that a job asks a cluster for.*1 or more",
        ),
        ({"experiments": ["one"], "device": "tpu"}, "Valid: cpu, cuda"),
    ],
)
def test_parameters_are_checked(config: dict[str, object], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        Request.of(config, Path())


SHIPPED = yaml.safe_load((ROOT / "params.yaml").read_text())


def asked(*names: str) -> tuple[str, ...]:
    return Request.of({**SHIPPED, "experiments": list(names)}, ROOT).experiments


@pytest.mark.parametrize("name", SHIPPED["sets"])
def test_every_set_that_is_shipped_names_experiments(name: str) -> None:
    assert set(asked(name)) <= set(available(Workspace(ROOT)))


def test_a_set_and_an_experiment_side_by_side() -> None:
    request = Request.of({"experiments": ["night", "b"], "sets": {"night": ["a", "b"]}}, ROOT)
    assert request.experiments == ("a", "b")
    assert request == Request(("a", "b"))  # what a set is called is no part of a plan


@pytest.mark.parametrize("name", ["hfedf/**", "**", "hf**/table2"])
def test_what_is_no_pattern_is_refused(name: str) -> None:
    """Python 3.13 takes it for a pattern, and ended in a traceback before."""
    with pytest.raises(
        FedshiftError, match=f"experiments: '{re.escape(name)}' is no pattern\n.*between slashes"
    ):
        asked(name)


def test_a_set_without_members_is_refused() -> None:
    with pytest.raises(FedshiftError, match="'experiments' names none: night has no member"):
        Request.of({"experiments": ["night"], "sets": {"night": []}}, ROOT)
