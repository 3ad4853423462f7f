"""Three rounds of FedAvg, of clients of unequal size and one at rest, against the same rounds written out."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.testing.toys import method, spec
from tests.methods.plain import PARTIAL, averaged, by_size, differs, doubles, equal, federation, trained

LOCAL = {"batch": 4, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("rule", ["keep_last", "wrap", "drop_last"])
@doubles()
def test_three_rounds(weights: str, rule: str) -> None:
    run: dict[str, Any] = {**PARTIAL, "weights": weights}
    f = federation(spec(local={**LOCAL, "batch_rule": rule}, federation=run), method("fedavg"))
    G = averaged(f, lambda G, k, t: trained(f, G, k, t), {"size": by_size, "uniform": equal}[weights])
    assert differs(f, G) < 1e-9
