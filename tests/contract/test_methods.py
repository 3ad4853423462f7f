"""What every method must hold: walks the registry, so that a new file is tested unasked."""

from fedshift.common.registry import names
from fedshift.testing.contract import MethodContract
from fedshift.testing.toys import method

METHODS = tuple(names("methods"))
POOLED = {name: "one pooled client" for name in METHODS if method(name).clients == "pooled"}


class TestMethods(MethodContract):
    names = METHODS
    exempt = {"test_participation_and_batches_are_those_of_fedavg": POOLED}
