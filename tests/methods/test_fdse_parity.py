"""FDSE's equations and classes of tensors against the reference."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation.layout import Layout
from fedshift.methods.fdse.consensus import consensus, min_norm, similarity
from fedshift.methods.fdse.consistency import KEEP, consistency, depth_weights, moments, running
from fedshift.methods.fdse.released import consistency_head, consistency_v1
from fedshift.testing.toys import method
from tests.reference import Reference


def alexnet(params: dict[str, Any]) -> tuple[Any, Any]:
    chosen = method("fdse", **params)
    with torch.device("meta"):
        model = chosen.model(get("models", "alexnet_bn")(10, 256))
    return Layout(model), chosen


def channels(*sizes: int) -> Tensor:
    return torch.block_diag(*[torch.full((1, size), 1 / size, dtype=torch.float64) for size in sizes])


EXCEPTIONS = {
    "fdse_eq8.json": {
        r"two_(identical|same_dir_diff_norm)\.u\.\d": "not unique where directions coincide; the update is compared",
        r"two_(identical|same_dir_diff_norm)\.u_official_cvxopt\.\d": "not unique where directions coincide",
        r"three_2same_1orth\.u_official_cvxopt\.[01]": "not unique between two equal directions; their sum is compared",
        r"three_2same_1orth\.u\.[01]": "not unique between two equal directions; their sum is compared",
    },
    "fdse_consistency.json": {
        r"paper_eq_unbiased_var\..*": "Eq. 4 prints the biased variance; the unbiased one is for comparison only",
    },
}  # fmt: skip


def row_of(vectors: list[Tensor]) -> Tensor:
    return torch.cat([vector.flatten() for vector in vectors])


@pytest.mark.parity
@pytest.mark.parametrize("case", Reference("fdse_eq8.json").keys())
def test_consensus_follows_the_reference(case: str) -> None:
    ref = Reference("fdse_eq8.json")
    updates = ref.given(f"{case}.updates")
    norms = updates.norm(dim=1)
    unit = updates / norms[:, None]
    u = min_norm(unit @ unit.T)
    ref.equals(f"{case}.norms", norms)
    ref.equals(f"{case}.mean_norm", norms.mean())
    ref.equals(f"{case}.min_norm_sq", (u @ unit).square().sum())
    ref.equals(f"{case}.delta", consensus(updates))
    ref.equals(f"{case}.delta_official", consensus(updates), abs=1e-6)
    ref.equals(f"{case}.inner_products", updates @ consensus(updates))
    ref.equals(f"{case}.plain_mean", updates.mean(0))
    assert (updates @ consensus(updates) >= -1e-9).all()
    if case == "three_2same_1orth":
        ref.equals(f"{case}.u.2", u[2])
        ref.equals(f"{case}.u_official_cvxopt.2", u[2], abs=1e-6)
    elif case not in ("two_identical", "two_same_dir_diff_norm"):
        ref.equals(f"{case}.u", u)
        ref.equals(f"{case}.u_official_cvxopt", u, abs=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("case", Reference("fdse_eq9.json").keys())
def test_similarity_follows_the_reference(case: str) -> None:
    ref = Reference("fdse_eq9.json")
    values = ref.given(f"{case}.V")
    for tau, expected in ref.given(f"{case}.by_tau").items():
        weights = similarity(values, float(tau))
        for computed, key in ((weights, "weights"), (weights @ values, "next")):
            torch.testing.assert_close(
                computed, torch.tensor(expected[key], dtype=torch.float64), rtol=0, atol=1e-9
            )


@pytest.mark.parity
def test_consistency_follows_the_reference() -> None:
    ref = Reference("fdse_consistency.json")
    batch = [moments(ref.given(name)) for name in ("X1", "X2")]
    goal = [[ref.given(f"global_{kind}.{i}") for i in (0, 1)] for kind in ("mean", "var")]
    own = [[ref.given(f"running_{kind}_before.{i}") for i in (0, 1)] for kind in ("mean", "var")]
    assert ref.given("gamma") == KEEP
    pairs = zip(own, zip(*batch, strict=True), strict=True)
    new = [running(row_of(before), row_of(list(now))) for before, now in pairs]
    layers = consistency(*new, *map(row_of, goal), channels=channels(3, 5))
    weights = depth_weights(torch.arange(2, dtype=torch.float64), ref.given("beta"))
    ref.equals("weights", weights)
    ref.equals("paper_eq_biased_var.per_layer", layers)
    ref.equals("paper_eq_biased_var.total", (weights * layers).sum())
    for beta in (0.001, 1):
        name = f"weights_L7_beta{str(beta).replace('.', 'p')}"
        ref.equals(name, depth_weights(torch.arange(7, dtype=torch.float64), beta))
    f = [average for average, _ in batch]
    first = [consistency_v1(f[i], own[0][i], own[1][i], goal[0][i], goal[1][i]) for i in (0, 1)]
    ref.equals("official_first_commit_formula", (weights * torch.stack(first)).sum())
    ref.equals("official_head_formula", consistency_head(f, goal[0], goal[1], weights, None)[0])


@pytest.mark.parity
@pytest.mark.parametrize(
    ("release", "params"),
    [
        ("first_commit_domainnet", {"padding": "v1"}),
        (
            "head_domainnet",
            {"activation": "none", "fc_identity": True, "concat_bias": "shared", "padding": "head"},
        ),
    ],
)
def test_who_owns_what_follows_the_released_servers(release: str, params: dict[str, Any]) -> None:
    """Sizes of the classes at 10 classes; the released ones count an integer per normalisation, which no row holds."""
    ref = Reference("fdse_keys.json")
    layout, chosen = alexnet(params)
    personal, local = chosen.personal(layout), chosen.local(layout)
    shared = ~(personal | local)
    ref.equals(f"{release}.numel.shared", shared.size + 7)
    ref.equals(f"{release}.numel.local", local.size)
    ref.equals(f"{release}.numel.personal", personal.size + 7)
    ref.equals(f"{release}.params", layout.P)
    names = {kind: [e.name for e in layout.entries if index.mask[e.offset]] for kind, index in
             (("shared", shared), ("personal", personal), ("local", local))}  # fmt: skip
    for kind, mine in names.items():
        theirs = [key for key in ref.values[release][kind] if "num_batches" not in key]
        assert len(mine) == len(theirs)
    assert (shared & layout.trainable).size == (6_495_402 if release.startswith("first") else 6_498_602)
    assert personal.size == (13_632 if release.startswith("first") else 9_408)
    assert local.size == 3_200
