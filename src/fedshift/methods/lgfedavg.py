"""LG-FedAvg: clients share the last linear layer and train all others locally (Liang et al. 2020).

As in FDSE's port, weight and bias of the model's `head` are shared. All other entries, including batch
normalisation, never leave the client. Nothing is trained before the first round (the released code starts
from a FedAvg model). A domain without a client is tested with each client's model under the shared head, and
the accuracies are averaged. This test, for analysis only, reads entries that the server never receives.
"""

from torch import Tensor

from fedshift.federation.method import Index, Layout, Method, Server


class LGFedAvg(Method):
    """FedAvg of the head only."""

    name = "lgfedavg"

    def local(self, L: Layout) -> Index:
        return ~L.under("head")

    def unseen(self, S: Server) -> Tensor:
        rows = S.row.repeat(S.N, 1)
        rows[:, S.local.at] = S.peek(S.local)
        return rows
