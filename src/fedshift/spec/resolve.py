"""Resolve a RunSpec: fill its open choices from the registry, and reject combinations that cannot run."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.files import canonical_json
from fedshift.common.registry import get
from fedshift.spec import Division, Method, Model, RunSpec
from fedshift.spec.block import overridden, params

AnyDivision = TypeVar("AnyDivision", bound=Division)
CLIENTS = 32_767  # the column `client` of a partition is int16
_resolved: dict[str, RunSpec] = {}  # by what was declared (JSON)


def resolve(spec: RunSpec, where: str = "run", built: bool = True) -> RunSpec:
    """Check names, parameters and combinations; drop parameters at their default, so that run ids do not
    depend on them.

    Specs that several experiments share are checked once. Raises FedshiftError that names `where`, the key
    and the nearest valid choice.

    built: whether to build the network, without values, to check that it fits; not needed for runs that are
        only shown
    """
    text = spec.model_dump_json()
    if (resolved := _resolved.get(text)) is None:
        resolved = resolve_division(spec, where)
        starts = ["scratch", *get("models", spec.model.name).weights]
        check_known(f"{where}: model.init", f"start of {spec.model.name}", spec.model.init, starts)
        _resolved[text] = resolved
    if built:
        network, method = (canonical_json(block.model_dump()) for block in (resolved.model, resolved.method))
        if refused := _refused(network, resolved.data.input_px, method, resolved.local.batch == 1):
            raise FedshiftError(f"{where}: {refused.where}", refused.what, refused.cure)
    return resolved


def resolve_division(spec: AnyDivision, where: str) -> AnyDivision:
    """Check the names and parameters of plug-ins, and the settings of the partition; drop parameters at their
    default.

    Raises FedshiftError that names `where`, the key and the nearest valid choice.
    """
    dataset = get("datasets", spec.data.dataset, f"{where}: data.dataset")
    if not dataset.open_releases:
        of = f"release of {spec.data.dataset}"
        check_known(f"{where}: data.release", of, spec.data.release, dataset.releases)
    for domain in spec.data.held_out:
        if dataset.domains:
            check_known(f"{where}: data.target", f"domain of {spec.data.dataset}", domain, dataset.domains)
        if spec.data.held_out.count(domain) > 1:
            what = f"names '{domain}' twice"
            raise FedshiftError(f"{where}: data.target", what, "Name two domains, or one.")
    spec = _with_params(spec, where, overridden)
    place, kind = f"{where}: partition.params", get("partitions", spec.partition.scheme)
    scheme = params(kind, spec.partition.params)
    if (clients := kind(scheme).clients(1)) > CLIENTS:
        raise FedshiftError(place, f"{clients:,} clients", f"Set clients to {CLIENTS:,} or less.")
    if dataset.domains:
        sources = len(dataset.domains) - len(spec.data.held_out)
        if sources < 1:
            what = "no source domain is left to train on"
            cure = "Hold out fewer domains, or none: target: null."
            raise FedshiftError(f"{where}: data.target", what, cure)
        scheme.check(sources, place)
        for name, overrides in spec.partition.modify.items():
            change = params(get("modifiers", name), overrides)
            change.check([*dataset.domains], len(dataset.classes), f"{where}: partition.modify.{name}")
    return spec


def _with_params(spec: AnyDivision, where: str, change: Callable[..., dict[str, Any]]) -> AnyDivision:
    """Replace the parameters of each plug-in of a spec by `change(plug-in, parameters, place)`."""
    blocks = {}
    named = [("partition", "partitions", "scheme")]
    if isinstance(spec, RunSpec):
        named += [("model", "models", "name"), ("method", "methods", "name")]
    for name, kind, key in named:
        block = getattr(spec, name)
        plugin = get(kind, getattr(block, key), f"{where}: {name}.{key}")
        changed = change(plugin, block.params, f"{where}: {name}.params")
        blocks[name] = block.model_copy(update={"params": changed})
    place = f"{where}: partition.modify"
    modify = {
        name: change(get("modifiers", name, place), overrides, f"{place}.{name}")
        for name, overrides in spec.partition.modify.items()
    }
    blocks["partition"] = blocks["partition"].model_copy(update={"modify": modify})
    return spec.model_copy(update=blocks)


def check_weights(spec: RunSpec, where: str) -> None:
    """Raise FedshiftError if the method of a resolved run ignores `federation.weights`, which its
    experiment sets.
    """
    method, weights = spec.method.build(), spec.federation.weights
    if method.weights not in (None, weights):
        what = f"'{weights}' has no effect: {method.name} weighs clients by its own rule, '{method.weights}'"
        cure = "Leave it out, or choose another method."
        if "weights" in {field.name for field in dataclasses.fields(method.Params)}:
            cure = f"Set method.params.weights to '{weights}'."
        raise FedshiftError(f"{where}: federation.weights", what, cure)


@functools.cache
def _refused(model: str, px: int, method: str, single: bool) -> FedshiftError | None:
    """The error if network and method (JSON) do not fit, or a batch of a `single` image; None if they do."""
    from torch.nn.modules.batchnorm import _BatchNorm

    from fedshift.common.tensors import shapes_only

    network, changed = Model.model_validate_json(model), Method.model_validate_json(method)
    place = "model.params"
    built: Model | Method = network
    try:
        with shapes_only():
            net = network.build(2, px)
            if single and any(isinstance(part, _BatchNorm) for part in net.modules()):
                what = f"a batch of 1 cannot pass the batch normalisation of '{network.name}'"
                return FedshiftError("local.batch", what, "Use a batch of 2 or more.")
            place, built = "method.params", changed
            changed.build().model(net)
    except FedshiftError as error:
        return error
    except (ArithmeticError, RuntimeError, ValueError) as error:
        what = f"'{built.name}' cannot be built with {built.params}: {error}"
        return FedshiftError(place, what, "Choose other values: docs/settings.md.")
    return None


def complete(spec: RunSpec) -> RunSpec:
    """A resolved spec with every parameter of its plug-ins, including those at their default."""
    return _with_params(spec, "run", lambda *given: dataclasses.asdict(params(*given)))
