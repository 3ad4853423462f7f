"""What params.yaml asks for is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.planning.request import Request


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
