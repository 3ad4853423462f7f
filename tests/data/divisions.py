"""Partitions of made-up indices, for the tests of schemes, modifiers and duplicates."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedshift.data.partition import divide
from tests.data.test_partition import make_index, make_spec

SMALL = {"A": 61, "B": 47, "C": 50, "D": 90}
SCHEMES: dict[str, dict[str, Any]] = {
    "domain_per_client": {},
    "domains_per_client": {"d": 2},
    "clients_per_domain": {"clients": 6},
    "dirichlet": {"clients": 5, "min_size": 6},
}


def division(sizes: dict[str, int], scheme: str, params: dict[str, Any], **blocks: Any) -> pd.DataFrame:
    modify = blocks.pop("modify", {})
    more: dict[str, Any] = {
        name: blocks.pop(name) for name in ("split", "groups", "target_split") if name in blocks
    }
    index = blocks.pop("index", None)
    spec = make_spec(scheme, params, **blocks)
    partition = spec.partition.model_copy(update={"modify": modify, **more})
    return divide(
        make_index(sizes) if index is None else index, spec.model_copy(update={"partition": partition})
    )


def held(table: pd.DataFrame) -> pd.Series:
    return table[table["client"] >= 0].groupby("client").size()
