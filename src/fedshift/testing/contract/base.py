"""The frame of a contract: which methods it tests, and what cannot hold for which of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest


class Contract:
    """A class of tests, each run for every method named.

    names: the methods
    exempt: test -> method -> why it cannot hold there by the method's nature
    """

    names: ClassVar[tuple[str, ...]] = ()
    exempt: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test that takes `name` once for each method that is not exempt from it."""
        if "name" in metafunc.fixturenames:
            without = self.exempt.get(metafunc.function.__name__, {})
            metafunc.parametrize("name", [name for name in self.names if name not in without])
