"""Columns of tables: the value of each run that an entry of `metrics` selects, before seeds are averaged."""

import math
from typing import Literal, NamedTuple, get_args

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.registry import get, names

Relative = Literal["", "gain", "ratio"]
Kind = Literal[
    "quantity", "cost", "rounds_to", "setting", "layer", "recorded", "leads",
    "evaluated",
]  # fmt: skip
COSTS = {
    "parameters": "M parameters",
    "state_dict": "MiB of state",
    "macs": "M multiply-adds",
    "macs_norm": "M multiply-adds with BN",
    "up": "MB up",
    "down": "MB down",
    "seconds": "s",
    "memory": "MiB of memory",
}  # name -> as tables head it; fedshift.analysis.cells computes them
COUNTED = ("parameters", "state_dict", "macs", "macs_norm")  # of these, costs that follow from a declaration
RELATIVE = {"gain": "gain in", "ratio": "times in"}
NUMBERS = ("spread", "range", "of", "apart")  # defined in fedshift.analysis.clients
OF_NAME = ("of", "apart")  # of these, those that need the name of a domain or an axis: "of=photo"
PARTS = ("model", "block", "hypernetwork", "autoencoder")  # networks of a run whose layers tables show


class Column(NamedTuple):
    """A column of a table.

    Kinds, with examples of names:

    - quantity: "ece.ood"
    - cost: "up"
    - rounds_to: "ood=60"
    - setting: "local.lr"
    - layer: "model.3"
    - recorded: "gradalign.of=photo"
    - leads: "accuracy", percent of the clients on which a row is the best of all rows
    - evaluated: "distances.inter", a number of an evaluation

    A `relative` column compares with the row that the table names in `against`. "gain" is that row's value
    minus this row's, "ratio" this row's value over that row's.
    """

    kind: Kind
    name: str
    relative: Relative = ""

    @property
    def declared(self) -> bool:
        """Whether its value follows from a run's declaration, without training."""
        return self.kind in ("setting", "layer") or (self.kind == "cost" and self.name in COUNTED)

    @property
    def threshold(self) -> tuple[str, float]:
        """The quantity and the value to reach, of `rounds_to`."""
        name, _, value = self.name.partition("=")
        return name, float(value)


def column(text: str, where: object = "metrics") -> Column:
    """Parse a column.

    The forms are `<quantity>`, `cost.<name>`, `setting.<dotted key>`, `layer.<part>.<number>`,
    `rounds_to.<quantity>=<value>`, `recorded.<diagnostic>.<number>`, `leads.<metric>` and
    `evaluated.<evaluation>.<name>`. The prefix `gain.` or `ratio.` is possible for values that runs measure.

    Raises FedshiftError at `where` for any other text.
    """
    first, _, rest = text.partition(".")
    if first in RELATIVE:
        inner = column(rest, where)
        if inner.relative or inner.kind in ("setting", "layer"):
            cure = f"Write {first}.<quantity> or {first}.cost.<name>."
            raise FedshiftError(where, f"'{text}' is relative to nothing that runs measure", cure)
        return inner._replace(relative="gain" if first == "gain" else "ratio")
    if first not in {*get_args(Kind)} - {"quantity"} or not rest:
        quantity(text, where)
        return Column("quantity", text)
    found = Column(first, rest)  # type: ignore[arg-type]  # one of Kind, as was just asked
    _check(found, where)
    return found


def recorded_of(name: str) -> tuple[str, str, str]:
    """Split "<diagnostic>.<number>" or "<diagnostic>.<number>=<name>" into its parts, "" for missing ones."""
    diagnostic, _, rest = name.partition(".")
    number, _, value = rest.partition("=")
    return diagnostic, number, value


def recorded(texts: list[str]) -> list[str]:
    """The quantities that columns use, including those of `rounds_to`; each once."""
    columns = (one for one in map(column, texts) if one.kind in ("quantity", "rounds_to"))
    return list(dict.fromkeys(one.threshold[0] if one.kind == "rounds_to" else one.name for one in columns))


def measured_on_clients(text: str) -> str:
    """The metric whose values on the clients a column shows, or "" if it shows none."""
    own = column(text)
    if own.kind == "leads":
        return own.name
    for name in recorded([text]):
        metric, aggregation = quantity(name)
        if aggregation != "ood":
            return metric
    return ""


def _check(found: Column, where: object) -> None:
    """Raise FedshiftError if the column's name does not exist for its kind."""
    kind, name, _ = found
    if kind == "cost":
        check_known(where, "cost", name, COSTS)
    if kind == "layer":
        part, _, number = name.partition(".")
        check_known(where, "network of a run", part, PARTS)
        if not number.isdigit() or not int(number):
            raise FedshiftError(where, f"'layer.{name}' names no layer", f"Write layer.{part}.1, and so on.")
    if kind == "leads":
        check_known(where, "metric", name, names("metrics"), "metrics")
    if kind == "recorded":
        _, number, value = recorded_of(name)
        check_known(where, "number of a diagnostic", number, NUMBERS)
        if (number in OF_NAME) != bool(value):
            cure = f"Write recorded.<diagnostic>.{number}{'=<name>' * (number in OF_NAME)}."
            raise FedshiftError(where, f"'recorded.{name}' does not say of what", cure)
    if kind == "evaluated":
        evaluation, _, number = name.partition(".")
        known = get("evaluations", evaluation, str(where)).quantities
        check_known(where, f"number of the evaluation '{evaluation}'", number, known)
    if kind == "rounds_to":
        try:
            wanted = found.threshold[1]
        except ValueError:
            wanted = math.nan
        if not math.isfinite(wanted):
            cure = "Write rounds_to.ood=60: percent, as tables show it."
            raise FedshiftError(where, f"'rounds_to.{name}' names no value to reach", cure)
        quantity(found.threshold[0], where)


AGGREGATIONS = {
    "id": "id",
    "ood": "ood",
    "all": "ALL",
    "avg": "AVG",
    "pooled": "pooled",
    "worst": "worst client",
    "std": "std over clients",
}  # name -> as tables head it; fedshift.analysis.quantities computes them
DEFAULT = "accuracy"


class Quantity(NamedTuple):
    """A metric of fedshift.analysis.metrics with one of AGGREGATIONS."""

    metric: str
    aggregation: str


def quantity(text: str, where: object = "metrics") -> Quantity:
    """Parse `<metric>.<aggregation>`; an aggregation alone is of accuracy. Raises FedshiftError at
    `where`.
    """
    metric, _, aggregation = text.rpartition(".")
    parsed = Quantity(metric or DEFAULT, aggregation)
    check_known(where, "metric", parsed.metric, names("metrics"), "metrics")
    if aggregation in names("metrics") and not metric:
        known = ", ".join(f"{aggregation}.{name}" for name in AGGREGATIONS)
        cure = f"Write {aggregation}.<aggregation>: {known}."
        raise FedshiftError(where, f"'{text}' does not say how clients become one number", cure)
    check_known(where, "aggregation over clients", aggregation, AGGREGATIONS)
    if aggregation == "pooled" and not get("metrics", parsed.metric).recorded:
        cure = f"Write {parsed.metric}.all: clients weighted by training images."
        raise FedshiftError(where, "`pooled` is defined for accuracy and loss only", cure)
    return parsed
