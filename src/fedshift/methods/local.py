"""Local: every client trains alone, from the common start, for as many epochs as the federation.

Optimiser and schedule are the protocol's, as for every other method, in most a new optimiser in every round;
`released` is the stand-alone code of FDSE's authors: one optimiser for the whole run, at a constant rate.
That code also keeps each client's best epoch by validation; here all clients show the same round. On a domain
that no client has, the clients' accuracies are averaged (hFedF, Sec. 4).
"""

from torch import Tensor

from fedshift.federation.method import Index, Layout, Method, Server


class Local(Method):
    """Nothing travels."""

    name = "local"

    def local(self, L: Layout) -> Index:
        return L.everything

    def unseen(self, S: Server) -> Tensor:
        return S.peek(S.local)
