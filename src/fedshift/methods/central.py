"""Central: one model on the union of all clients' training data, for as many epochs as the federation."""

from fedshift.federation.method import Method


class Central(Method):
    """One pooled client with one optimiser for the whole run, evaluated on every client's held-out data."""

    name = "central"
    clients = "pooled"
    optimizer_state = "persist"
