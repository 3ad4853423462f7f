"""Local: every client trains alone, from the common start, for as many epochs as the federation.

One optimiser for the whole run, as in the released stand-alone code; hFedF makes its baselines' optimisers anew in every round. On a
domain that no client has, the clients' accuracies are averaged (hFedF, Sec. 4).
"""

from __future__ import annotations

from torch import Tensor

from fedshift.federation.layout import Index, Layout
from fedshift.federation.method import Method
from fedshift.federation.state import Server


class Local(Method):
    """Nothing travels."""

    name = "local"
    optimizer_state = "persist"

    def local(self, L: Layout) -> Index:
        return L.everything

    def unseen(self, S: Server) -> Tensor:
        return S.peek(S.local)
