"""What every method must hold: walks the registry, so that a new file is tested unasked."""

import pytest

from fedshift.common.registry import names
from fedshift.testing.contract import MethodContract

pytestmark = pytest.mark.slow

METHODS = tuple(names("methods"))


class TestMethods(MethodContract):
    names = METHODS
