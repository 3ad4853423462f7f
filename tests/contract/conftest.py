"""By default the contract is tested on methods that span what a method may declare; on all by `make test-all`."""

import pytest

SPANNING = {"ditto", "fdse", "hfedf", "scaffold", "stablefdg"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        of = getattr(item, "callspec", None)
        if item.path.parent.name == "contract" and of and of.params.get("name", "fdse") not in SPANNING:
            item.add_marker(pytest.mark.slow)
