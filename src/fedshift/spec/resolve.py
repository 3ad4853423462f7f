"""Fills a RunSpec's open choices from the registry and refuses combinations that cannot run."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import canonical_json
from fedshift.common.registry import get
from fedshift.spec import Division, Method, Model, RunSpec
from fedshift.spec.block import overridden, params

AnyDivision = TypeVar("AnyDivision", bound=Division)
CLIENTS = 32_767  # the column of a partition that says who holds a sample is int16
_resolved: dict[str, RunSpec] = {}  # by what was declared (JSON)


def resolve(spec: RunSpec, where: str = "run") -> RunSpec:
    """Check names, parameters and combinations; parameters at their default are dropped, so that a digest
    never sees them. What several experiments share is checked once.

    Raises FedshiftError naming `where`, the key and the nearest valid choice.
    """
    text = spec.model_dump_json()
    if text not in _resolved:
        _resolved[text] = _resolve(spec, where)
    return _resolved[text]


def _resolve(spec: RunSpec, where: str) -> RunSpec:
    spec = resolve_division(spec, where)
    model = get("models", spec.model.name, f"{where}: model.name")
    if spec.model.init not in (starts := ["scratch", *model.weights]):
        raise unknown(f"{where}: model.init", f"start of {spec.model.name}", spec.model.init, starts)
    method = get("methods", spec.method.name, f"{where}: method.name")
    blocks = {
        "model": spec.model.model_copy(
            update={"params": overridden(model, spec.model.params, f"{where}: model.params")}
        ),
        "method": spec.method.model_copy(
            update={"params": overridden(method, spec.method.params, f"{where}: method.params")}
        ),
    }
    spec = spec.model_copy(update=blocks)
    if spec.local.batch == 1 and _has_batch_norm(model, spec):
        raise FedshiftError(
            f"{where}: local.batch",
            f"a batch of 1 cannot pass the batch normalisation of '{spec.model.name}'",
            "Use a batch of 2 or more.",
        )
    if spec.data.input_px < model.min_px:
        cure = f"Set data.input_px (and data.prepare.px) to {model.min_px} or more."
        raise FedshiftError(
            f"{where}: data.input_px", f"{spec.data.input_px} px is too small for '{spec.model.name}'", cure
        )
    if refused := _refused(
        canonical_json(spec.model.model_dump()), spec.data.input_px, canonical_json(spec.method.model_dump())
    ):
        raise FedshiftError(f"{where}: {refused.where}", refused.what, refused.cure)
    return spec


def resolve_division(spec: AnyDivision, where: str) -> AnyDivision:
    """Check the names and parameters that decide who holds which sample; parameters at their default are
    dropped.

    Raises FedshiftError naming `where`, the key and the nearest valid choice.
    """
    dataset = get("datasets", spec.data.dataset, f"{where}: data.dataset")
    if spec.data.release not in dataset.releases and not dataset.open_releases:
        raise unknown(
            f"{where}: data.release", f"release of {spec.data.dataset}", spec.data.release, dataset.releases
        )
    for domain in spec.data.held_out:
        if dataset.domains and domain not in dataset.domains:
            raise unknown(f"{where}: data.target", f"domain of {spec.data.dataset}", domain, dataset.domains)
        if spec.data.held_out.count(domain) > 1:
            what = f"names '{domain}' twice"
            raise FedshiftError(f"{where}: data.target", what, "Name two domains, or one.")
    scheme = get("partitions", spec.partition.scheme, f"{where}: partition.scheme")
    changes = {name: get("modifiers", name, f"{where}: partition.modify") for name in spec.partition.modify}
    modify = {
        name: overridden(change, spec.partition.modify[name], f"{where}: partition.modify.{name}")
        for name, change in changes.items()
    }
    scheme_params = overridden(scheme, spec.partition.params, f"{where}: partition.params")
    _check_clients(scheme(params(scheme, scheme_params)), f"{where}: partition.params")
    if dataset.domains:
        sources = len(dataset.domains) - len(spec.data.held_out)
        if sources < 1:
            what = "no source domain is left to train on"
            raise FedshiftError(
                f"{where}: data.target", what, "Hold out fewer domains, or none: target: null."
            )
        params(scheme, scheme_params).check(sources, f"{where}: partition.params")
        for name, change in changes.items():
            hp = params(change, modify[name])
            hp.check(list(dataset.domains), len(dataset.classes), f"{where}: partition.modify.{name}")
    partition = spec.partition.model_copy(update={"params": scheme_params, "modify": modify})
    return spec.model_copy(update={"partition": partition})


def _check_clients(scheme: Any, where: str) -> None:
    """Refuse more clients than a partition has numbers for."""
    if (clients := scheme.clients(1)) > CLIENTS:
        raise FedshiftError(where, f"{clients:,} clients", f"Set clients to {CLIENTS:,} or less.")


def check_weights(spec: RunSpec, where: str) -> None:
    """For a resolved run whose experiment asks for `federation.weights`: raise FedshiftError where the method
    weighs its clients otherwise.
    """
    method, weights = spec.method.build(), spec.federation.weights
    if method.weights not in (None, weights):
        what = (
            f"'{weights}' would have no effect: {method.name} weighs its clients by a rule of its own, "
            f"'{method.weights}'"
        )
        own = "weights" in {field.name for field in dataclasses.fields(method.Params)}
        cure = (
            f"Set method.params.weights to '{weights}'." if own else "Leave it out, or choose another method."
        )
        raise FedshiftError(f"{where}: federation.weights", what, cure)


@functools.cache
def _refused(model: str, px: int, method: str) -> FedshiftError | None:
    """The error by which a network refuses its parameters or input size, or a method refuses the network;
    None where all fit. `model` and `method` are the specs' JSON. No tensor has values.
    """
    from fedshift.common.tensors import shapes_only

    network, changed = Model.model_validate_json(model), Method.model_validate_json(method)
    place = "model.params"
    built: Model | Method = network
    try:
        with shapes_only():
            net = network.build(2, px)
            place, built = "method.params", changed
            changed.build().model(net)
    except FedshiftError as error:
        return error
    except (ArithmeticError, RuntimeError, ValueError) as error:
        what = f"'{built.name}' cannot be built with {built.params}: {error}"
        return FedshiftError(place, what, "Choose other values: docs/settings.md.")
    return None


def complete(spec: RunSpec) -> RunSpec:
    """A resolved spec with every parameter of its method, model, scheme and modifiers, those at their default
    too; `resolve` drops them again.
    """

    def every(kind: str, name: str, overrides: dict[str, Any]) -> dict[str, Any]:
        return dataclasses.asdict(params(get(kind, name), overrides))

    partition, model, method = spec.partition, spec.model, spec.method
    changes = {name: every("modifiers", name, overrides) for name, overrides in partition.modify.items()}
    return spec.model_copy(
        update={
            "partition": partition.model_copy(
                update={"params": every("partitions", partition.scheme, partition.params), "modify": changes}
            ),
            "model": model.model_copy(update={"params": every("models", model.name, model.params)}),
            "method": method.model_copy(update={"params": every("methods", method.name, method.params)}),
        }
    )


def _has_batch_norm(model: Any, spec: RunSpec) -> bool:
    from torch.nn.modules.batchnorm import _BatchNorm

    from fedshift.common.tensors import shapes_only

    with shapes_only():
        return any(
            isinstance(part, _BatchNorm) for part in model(2, max(spec.data.input_px, model.min_px)).modules()
        )
