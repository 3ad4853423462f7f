"""Resolve a RunSpec: fill its open choices from the registry, and reject combinations that cannot run."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.registry import get
from fedshift.spec import Division, Method, Model, RunSpec
from fedshift.spec.block import overridden, params
from fedshift.spec.settings import Partition

AnyDivision = TypeVar("AnyDivision", bound=Division)
CLIENTS = 32_767  # the column `client` of a partition is int16
# Blocks with parameters, the kind of their plug-ins, and the key with a plug-in's name.
PLUGINS = [("partition", "partitions", "scheme"), ("model", "models", "name"), ("method", "methods", "name")]
# These blocks as resolved, by what was declared (JSON), data set and number of held-out domains.
_resolved: dict[tuple[str, str, int], dict[str, Any]] = {}


def resolve(spec: RunSpec, where: str = "run", built: bool = True) -> RunSpec:
    """Check names, parameters and combinations; drop parameters at their default, so that run ids do not
    depend on them.

    Raises FedshiftError that names `where`, the key and the nearest valid choice.

    built: whether to build the network, without values, to check that it fits; not needed for runs that are
        only shown
    """
    resolved = resolve_division(spec, where)
    starts = ["scratch", *get("models", spec.model.name).weights]
    check_known(f"{where}: model.init", f"start of {spec.model.name}", spec.model.init, starts)
    if built:
        _check_network(resolved, where)
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
    text = spec.model_dump_json(include={name for name, *_ in PLUGINS})  # equal in many runs
    case = (text, spec.data.dataset, len(spec.data.held_out))
    if case not in _resolved:
        blocks = _blocks(spec, where, overridden)
        _check_partition(blocks["partition"], dataset, len(spec.data.held_out), where)
        _resolved[case] = blocks
    return spec.model_copy(update=_resolved[case])


def _check_partition(partition: Partition, dataset: Any, held_out: int, where: str) -> None:
    """Raise FedshiftError for parameters that do not fit the data set with a number of held-out domains."""
    place, kind = f"{where}: partition.params", get("partitions", partition.scheme)
    scheme = params(kind, partition.params)
    if (clients := kind(scheme).clients(1)) > CLIENTS:
        raise FedshiftError(place, f"{clients:,} clients", f"Set clients to {CLIENTS:,} or less.")
    if dataset.domains:
        sources = len(dataset.domains) - held_out
        if sources < 1:
            what = "no source domain is left to train on"
            cure = "Hold out fewer domains, or none: target: null."
            raise FedshiftError(f"{where}: data.target", what, cure)
        scheme.check(sources, place)
        for name, overrides in partition.modify.items():
            change = params(get("modifiers", name), overrides)
            change.check([*dataset.domains], len(dataset.classes), f"{where}: partition.modify.{name}")


def _blocks(spec: Division, where: str, change: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The blocks of plug-ins of a spec, parameters replaced by `change(plug-in, parameters, place)`."""
    blocks = {}
    for name, kind, key in PLUGINS:
        if block := getattr(spec, name, None):
            plugin = get(kind, getattr(block, key), f"{where}: {name}.{key}")
            changed = change(plugin, block.params, f"{where}: {name}.params")
            blocks[name] = block.model_copy(update={"params": changed})
    place = f"{where}: partition.modify"
    modify = {
        name: change(get("modifiers", name, place), overrides, f"{place}.{name}")
        for name, overrides in spec.partition.modify.items()
    }
    blocks["partition"] = blocks["partition"].model_copy(update={"modify": modify})
    return blocks


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


def _check_network(spec: RunSpec, where: str) -> None:
    """Raise FedshiftError if network and method do not fit, or batches of one image the network."""
    from torch.nn.modules.batchnorm import _BatchNorm

    built: Model | Method = spec.model
    place = "model.params"
    try:
        plain = spec.network(2, plain=True)
        if spec.local.batch == 1 and any(isinstance(part, _BatchNorm) for part in plain.modules()):
            what = f"a batch of 1 cannot pass the batch normalisation of '{built.name}'"
            raise FedshiftError("local.batch", what, "Use a batch of 2 or more.")
        place, built = "method.params", spec.method
        spec.network(2)
    except FedshiftError as error:
        raise FedshiftError(f"{where}: {error.where}", error.what, error.cure) from None
    except (ArithmeticError, RuntimeError, ValueError) as error:
        what = f"'{built.name}' cannot be built with {built.params}: {error}"
        raise FedshiftError(f"{where}: {place}", what, "Choose other values: docs/settings.md.") from None


def complete(spec: RunSpec) -> RunSpec:
    """A resolved spec with every parameter of its plug-ins, including those at their default."""
    return spec.model_copy(update=_blocks(spec, "run", lambda *given: dataclasses.asdict(params(*given))))
