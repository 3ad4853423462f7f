"""FedBN: batch-normalisation layers stay with their client (Li et al. 2021, Algorithm 1).

All tensors of batch-normalisation layers - affine and running statistics, found by module type - never leave
the client. For a domain that no client has, they are the plain mean over the clients that have trained (as
CCST's evaluation of FedBN does, where all have): a declared exception for analysis.
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
