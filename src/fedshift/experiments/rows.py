"""Rows: what an experiment's entry says of one, and which method it is of."""

from __future__ import annotations

from fedshift.common.registry import names
from fedshift.experiments.protocols import Partial
from fedshift.experiments.schema import Experiment


def entry(experiment: Experiment, label: str) -> tuple[str, Partial]:
    """The preset that a row's entry names, and the rest of the entry."""
    own = dict(experiment.methods[label] or {})
    return own.pop("preset", "default"), own


def method_of(label: str, own: Partial, common: Partial) -> str:
    """The method of a row: its entry's, else the one that its label names, else that of all rows."""
    default = label if label in names("methods") else setting(common, "method", "name", label)
    return setting(own, "method", "name", default)


def setting(partial: Partial, block: str, key: str, default: str) -> str:
    """A word of a part of a run's specification; `default` where it is not there."""
    inner = partial.get(block)  # what is no mapping is refused with the rest of the run's spec
    return str(inner.get(key, default)) if isinstance(inner, dict) else default
