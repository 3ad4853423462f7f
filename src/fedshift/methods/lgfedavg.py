"""LG-FedAvg: clients share the last linear layer and keep what is below it (Liang et al. 2020).

As FDSE's port has it: weight and bias of the model's `head` are shared, all else - batch normalisation too -
never leaves the client, and nothing is trained before the first round (the released code starts from a FedAvg
model). On a domain that no client has, the clients' models under the shared head are tested one by one and
their accuracies averaged: a declared exception for analysis.
"""

from torch import Tensor

from fedshift.federation.method import Index, Layout, Method, Server


class LGFedAvg(Method):
    """FedAvg of the head alone."""

    name = "lgfedavg"

    def local(self, L: Layout) -> Index:
        return ~L.under("head")

    def unseen(self, S: Server) -> Tensor:
        rows = S.row.repeat(S.N, 1)
        rows[:, S.local.at] = S.peek(S.local)
        return rows
