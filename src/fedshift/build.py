"""The one door from a declaration to objects: a run's method, network and rendering, built from its resolved
spec.

Whoever wants to know what a method declares asks the object, never its class: parameters may change it
(`centralized`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedshift.common.registry import get
from fedshift.spec import RunSpec
from fedshift.spec.resolve import params

if TYPE_CHECKING:
    from fedshift.federation.method import Method
    from fedshift.models.base import Model
    from fedshift.rendering import Rendering


def method_of(spec: RunSpec) -> Method:
    """A new object of the run's method, with its parameters."""
    kind = get("methods", spec.method.name)
    method: Method = kind(params(kind, spec.method.params))
    return method


def pools(name: str, given: dict[str, Any]) -> bool:
    """Whether the method of that name, with these parameters, trains one client on everybody's images."""
    kind = get("methods", name)
    return bool(kind(params(kind, given)).clients == "pooled")


def averaging(name: str, given: dict[str, Any], protocol: str) -> str:
    """How the method of that name, with these parameters, weighs clients: size or uniform, as the protocol
    or it itself says, or own.
    """
    kind = get("methods", name)
    method: Method = kind(params(kind, given))
    return "own" if method.weighs else method.weights or protocol


def model_of(spec: RunSpec, classes: int) -> Model:
    """The run's network for `classes` classes, before its method changes it, on torch's default device.

    Raises FedshiftError where the input is too small for it.
    """
    model: Model = get("models", spec.model.name)(classes, spec.data.input_px, **spec.model.params)
    return model


def rendering_of(spec: RunSpec) -> Rendering | None:
    """What makes the images that the run trains on, with its method's parameters; None where it trains on the
    prepared ones.
    """
    method = method_of(spec)
    return None if method.rendering is None else get("renderings", method.rendering)(method.hp)
