"""FedBN: batch-normalisation layers stay with their client (Li et al. 2021, Algorithm 1).

All tensors of batch-normalisation layers (affine parameters and running statistics, found by module type)
never leave the client. A domain without a client is tested with their plain mean over the clients that have
trained. CCST's evaluation of FedBN does the same, with all clients trained. This test, for analysis only,
reads entries that the server never receives.
"""

from torch import Tensor

from fedshift.federation.method import Index, Layout, Method, Server


class FedBN(Method):
    """FedAvg of everything but batch normalisation."""

    name = "fedbn"
    version = 2

    def local(self, L: Layout) -> Index:
        return L.kind("bn_affine", "bn_statistic")

    def unseen(self, S: Server) -> Tensor:
        row = S.row.clone()
        row[S.local.at] = S.peek(S.local)[S.trained].mean(0)
        return row[None]
