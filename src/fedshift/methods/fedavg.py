"""FedAvg: average the clients' models (McMahan et al. 2017, Algorithm 1)."""

from fedshift.federation.method import Method


class FedAvg(Method):
    """Every client trains the model received; the server averages the results, w = sum_k p_k w_k."""

    name = "fedavg"
