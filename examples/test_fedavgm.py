"""The project's contract suite over this package's method: `pytest test_fedavgm.py`, with the package installed."""

from fedshift.testing.contract import MethodContract, ServerRuleContract


class TestFedAvgM(MethodContract, ServerRuleContract):
    names = ("fedavgm",)
