"""Local: every client trains alone, from the common start, for as many epochs as the federation.

Optimiser and schedule are the protocol's, as for every other method; most protocols create a new optimiser in
every round. The preset `released` is the stand-alone code of FDSE's authors: one optimiser for the whole run,
at a constant rate. That code also saves each client's best epoch by validation; here all clients are
evaluated at the same round. On a domain without a client, the clients' accuracies are averaged (hFedF, Sec.
4).
"""

from torch import Tensor

from fedshift.federation.method import Index, Layout, Method, Server


class Local(Method):
    """Local training without communication."""

    name = "local"

    def local(self, L: Layout) -> Index:
        return L.everything

    def unseen(self, S: Server) -> Tensor:
        return S.peek(S.local)
