"""A table of an experiment: its columns, its metrics, and the printed tables that it stands beside."""

from __future__ import annotations

from pydantic import Field

from fedshift.experiments.protocols import Rule
from fedshift.spec import Closed

METRIC = "metric"  # among the columns of a table: where its metrics stand


class Table(Closed):
    """Rows are methods; columns are the values of `columns`, each with `metrics`; other axes are averaged,
    seeds last.
    """

    title: str = Field("", description="Its heading; without one its name.")
    printed: list[str] = Field(
        [],
        description="The paper's tables whose numbers its cells stand beside, as reference/published.csv "
        "names them: each printed number has one cell in all experiments (docs/coverage.md).",
    )
    columns: list[str] = Field(
        [],
        description="Axes whose values are columns, by name. `metric` among them says where metrics stand; "
        "without it they are innermost.",
    )
    metrics: list[str] = Field(
        ["id", "ood"],
        min_length=1,
        description="`<metric>.<aggregation over clients>` (`fedshift list metrics`); an aggregation alone "
        "is of "
        "accuracy: `id`, mean over clients of their own test accuracy; `ood`, the held-out domain's; `all`, "
        "as id, "
        "weighted by training images; `avg`, id under the name that FDSE prints; `worst`, `std`, `pooled`. "
        "Besides: `cost.<name>`, `rounds_to.ood=60` (`bytes_to`, `seconds_to`), `setting.<dotted key>`, "
        "`layer.<part>.<number>`; and `gain.` or `ratio.` before one of them, relative to the row `against` "
        "(docs/add-an-experiment.md).",
    )
    against: str = Field(
        "",
        description="The row that `gain.` (its value less the cell's) and `ratio.` (the cell's over its "
        "value) are relative to, run by run at the same values on all axes.",
    )
    select: list[Rule] = Field(
        [], description="Rules that choose the round, side by side; none: the protocol's."
    )

    @property
    def measured(self) -> bool:
        """Whether it shows anything else than settings and layers."""
        return not all(metric.startswith(("setting.", "layer.")) for metric in self.metrics)
