"""A comparison that was not run names the side that lacks runs."""

from __future__ import annotations

import pytest

from ..conftest import Project
from ..judging import HFEDF, Values, judged, told

NONE: Values = [None] * 6
LATER: Values = [None, *HFEDF[1:]]


@pytest.mark.parametrize(
    ("hfedf", "fedavg", "said"),
    [
        (HFEDF, NONE, "fedavg: no seed with all its runs"),
        (NONE, HFEDF, "hfedf: no seed with all its runs"),  # it was said of fedavg
        (NONE, NONE, "hfedf and fedavg: no seed with all its runs"),
        ([HFEDF[0], None, None, HFEDF[3], None, None], LATER, "fedavg: no seed with all runs of both sides"),
    ],
)
def test_the_side_that_lacks_runs_is_named(
    project: Project, hfedf: Values, fedavg: Values, said: str
) -> None:
    methods = {"hfedf": hfedf, "fedavg": fedavg, "fedprox": HFEDF}
    assert told(judged(project, "HF-C04.1", methods)) == said


def test_it_is_named_once(project: Project) -> None:
    others = dict.fromkeys(("fedavg", "fedprox", "pfedhn", "fedsr", "fedgma"), HFEDF)
    assert told(judged(project, "HF-C01.2", {"hfedf": NONE, **others})) == "hfedf: no seed with all its runs"
