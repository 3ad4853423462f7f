"""What rounding alone explains: the dtype's epsilon, times the operations, times the size of what was added up."""

import torch
from torch import Tensor


def assert_rounded(computed: Tensor, expected: Tensor, terms: Tensor, operations: int = 0) -> None:
    """Assert that computed [..] is expected [..] but for rounding, entry by entry.

    terms [K, ..]: what both add up for an entry, before anything cancels. The bound is operations * eps * sum of |terms|, with the epsilon
    of the coarser dtype; operations: by default 4 K, a product and a sum for each term on both ways.
    """
    assert computed.shape == expected.shape
    eps = max(torch.finfo(one.dtype).eps for one in (computed, expected))
    bound = (operations or 4 * len(terms)) * eps * terms.double().abs().sum(0)
    excess = (computed.double() - expected.double()).abs() - bound
    worst = int(excess.argmax())
    told = f"{computed.flatten()[worst]} is not {expected.flatten()[worst]} to {bound.flatten()[worst]:.1e}"
    assert excess.max() <= 0, f"entry {worst}: {told}"
