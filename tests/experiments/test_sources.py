"""Where the settings of a paper's runs come from: the paper, its code, or a reason that is written down."""

import pytest

from docs.generate.protocols import beside, headline, settings
from fedshift.experiments import protocols
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT


def test_sources_are_told_of_settings_that_exist() -> None:
    for name in protocols.protocols(Workspace(ROOT)):
        known = protocols.protocol(Workspace(ROOT), name)
        for spec in headline(name).values():
            assert known.sources.keys() <= settings(spec, known).keys(), name


@pytest.mark.parametrize(
    "protocol",
    [
        name
        for name in protocols.protocols(Workspace(ROOT))
        if protocols.protocol(Workspace(ROOT), name).headline
    ],
)
def test_no_headline_row_differs_from_its_paper_without_a_reason(protocol: str) -> None:
    """Every setting of a run of the paper's tables is what the paper says, else what its code says, else explained."""
    known = protocols.protocol(Workspace(ROOT), protocol)
    for dataset, spec in headline(protocol).items():
        told = beside(spec, known)
        assert len(told) > 35  # the protocol's, and the method's own
        assert {key: one for key, one in told.items() if one.unexplained} == {}, dataset
