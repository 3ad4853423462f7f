"""Values of methods' parameters that no run can be trained with are refused before it."""

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.spec.block import params
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import spec


@pytest.mark.parametrize(
    ("method", "name", "refused", "allowed"),
    [
        ("moon", "tau", 0, 0.1),
        ("partialfed", "top", 0, 1),
        ("partialfed", "warm", 0, 1),
        ("partialfed", "cold", 0, 1),
        ("partialfed", "rounds", 0, 1),
        ("fedsr", "z", 0, 1),
        ("stablefdg", "d", 0, 1),
        ("stablefdg", "p", 2, 1),
        ("stablefdg", "beta", 0, 0.1),
        ("mixstyle", "p", 3, 0),
        ("mixstyle", "beta", 0, 0.1),
        ("dsu", "p", -0.5, 1),
        ("fedfa", "p", 3, 1),
        ("fedfa", "momentum", 5, 1),
        ("fediir", "ema", 5, 0),
        ("hfedf", "ema", -1, 1),
        ("hfedf", "embedding_dim", -1, 1),
        ("hfedf", "hidden", -1, 0),
    ],
)
def test_a_value_that_cannot_be_trained_is_refused(
    method: str, name: str, refused: float, allowed: float
) -> None:
    kind = get("methods", method)
    assert getattr(params(kind, {name: allowed}), name) == allowed
    with pytest.raises(FedshiftError, match=rf"'{name}' of {method}: .*\n.*Got {refused}"):
        params(kind, {name: refused})


def test_maps_that_are_smaller_than_a_kernel_are_refused() -> None:
    small, large = (
        spec(
            data={"input_px": px, "prepare": {"px": px}},
            method={"name": "fdse", "params": {"padding": "head"}},
        )
        for px in (32, 64)
    )
    with pytest.raises(FedshiftError, match=r"run: method.params: 'fdse' cannot be built with .* too small"):
        resolve(small, "run")
    resolve(large, "run")
