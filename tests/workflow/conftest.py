"""A copy of the checkout, small experiments in place of the published ones."""

from __future__ import annotations

import pytest

from tests.workflow.checkout import Checkout, tiny


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Two experiments, `demo` (fedavg, fedprox) and `other` (fedavg, local), trained with real snakemake."""
    experiments = {
        "demo": tiny("Demo", "fedavg", "fedprox"),
        "other": tiny("Other", "fedavg", "local"),
    }
    return Checkout.made(
        tmp_path_factory.mktemp("checkout"), experiments, "experiments: [demo, other]\npack: 2\n"
    )
