"""What every method must hold: walks the registry, so that a new file is tested unasked."""

from fedshift.common.registry import names
from fedshift.testing.contract import MethodContract

METHODS = tuple(names("methods"))


class TestMethods(MethodContract):
    names = METHODS
