"""Label skew over clients: by Dirichlet proportions and by classes dealt out, in all domains and within them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data.partitions.label_dirichlet import LabelDirichlet
from fedshift.data.partitions.label_dirichlet import Params as Dirichlet
from fedshift.data.partitions.shards import Params as Classes
from fedshift.data.partitions.shards import Shards
from fedshift.data.scheme import generator

DOMAINS = ["a", "b", "c"]


def index(per_cell: int = 40, classes: int = 6) -> pd.DataFrame:
    """Images of three source domains and a held-out one, `per_cell` of each class."""
    rows = [
        (domain, label)
        for domain in (*DOMAINS, "held out")
        for label in range(classes)
        for _ in range(per_cell)
    ]
    return pd.DataFrame(rows, columns=["domain", "label"])


def held(scheme: Any, table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Images by client, domain and label; every source image is held once, no other is."""
    scheme.params.check(len(DOMAINS), "here")
    client = scheme.assign(table, DOMAINS, generator(seed, scheme.name))
    assert ((client >= 0) == table["domain"].isin(DOMAINS)).all()
    assert {*client[client >= 0]} == {*range(scheme.clients(len(DOMAINS)))}
    return table.assign(client=client)[client >= 0]


@pytest.mark.parametrize("d", [None, 1, 2])
@pytest.mark.parametrize("scheme", [LabelDirichlet, Shards])
def test_clients_hold_images_of_d_domains(scheme: Any, d: int | None) -> None:
    hp = Dirichlet(9, 100.0, d) if scheme is LabelDirichlet else Classes(9, 4, d)
    domains = held(scheme(hp), index()).groupby("client")["domain"].nunique()
    assert (domains == (3 if d is None else d)).all()


def test_every_client_has_k_classes_in_equal_parts() -> None:
    found = held(Shards(Classes(9, 2)), index())
    assert (found.groupby("client")["label"].nunique() == 2).all()
    assert (found.groupby("label")["client"].nunique() == 3).all()  # 9 clients, 2 classes each, 6 classes
    parts = found.groupby(["label", "domain", "client"]).size()
    assert parts.max() - parts.min() <= 1
    within = held(Shards(Classes(9, 2, 1)), index())
    assert (within.groupby("client")["label"].nunique() == 2).all()
    assert (within.groupby("client").size() == 80).all()


def test_a_small_alpha_means_few_classes() -> None:
    table = index(200)

    def largest(alpha: float) -> float:
        """Mean share of a client's most frequent class."""
        counts = (
            held(LabelDirichlet(Dirichlet(10, alpha)), table)
            .groupby(["client", "label"])
            .size()
            .unstack(fill_value=0)
        )
        return float((counts.max(axis=1) / counts.sum(axis=1)).mean())

    shares = [largest(alpha) for alpha in (0.05, 0.5, 1000.0)]
    assert shares[0] > shares[1] + 0.1 > shares[2] + 0.2
    assert shares[2] == pytest.approx(1 / 6, abs=0.05)


def test_proportions_follow_the_dirichlet_distribution() -> None:
    """The first class is shared before any client is full: its shares have the mean and variance of Dir(alpha)."""
    table, clients, alpha = index(4000, 1), 5, 0.5
    shares = np.array([
        held(LabelDirichlet(Dirichlet(clients, alpha, min_size=1)), table, seed)
        .query("domain == 'a'").groupby("client").size().reindex(range(clients), fill_value=0) / 4000
        for seed in range(300)
    ])  # fmt: skip
    assert shares.mean(0) == pytest.approx(np.full(clients, 0.2), abs=0.04)
    assert shares.var(0) == pytest.approx(np.full(clients, 0.2 * 0.8 / (clients * alpha + 1)), rel=0.3)


@pytest.mark.parametrize("scheme", [LabelDirichlet(Dirichlet(9, 0.5)), Shards(Classes(9, 2))])
def test_a_seed_decides(scheme: Any) -> None:
    one, same, other = (held(scheme, index(), seed)["client"].tolist() for seed in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (LabelDirichlet(Dirichlet(9, 0.5, min_size=1000)), "more than the 720 of the source domains"),
        (LabelDirichlet(Dirichlet(60, 0.01, min_size=12)), "no sample of 1000 gave"),
        (LabelDirichlet(Dirichlet(9, 0.0)), "alpha = 0.0"),
        (Shards(Classes(2, 2)), "2 clients with k = 2 leave some of 6 classes"),
        (Shards(Classes(2, 6, 1)), "leave one of 3 domains unused"),
        (Shards(Classes(9, 0)), "k = 0"),
        (Shards(Classes(9, 2, 4)), "d = 4"),
    ],
)
def test_numbers_that_make_no_partition(scheme: Any, said: str) -> None:
    with pytest.raises(FedshiftError, match=said):
        held(scheme, index())
