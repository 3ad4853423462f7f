"""Schema of experiment files; closed, so a misspelled key is an error."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from fedshift.experiments.protocols import Partial, Rule
from fedshift.spec import Closed

SELECTED = "selected"  # of a claim: the round that tables show
ROUNDS = r"selected|mean|fluctuation|round \d+"
COST_MARGIN = 0.1  # the share of a cost within which "~" calls two equal
METRIC = "metric"  # among the columns of a table: the place of its metrics
NAME = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")  # of parts of file names
FIELD = re.compile(r"\{([^{}]*)\}")  # the fields of a template of `published`
LAYER = "layer"  # the field of a template that is a published layer
HELD_OUT = "data.target"  # the key of the axis `target`
Values = list[Any] | Literal["all"]
Entry = str | dict[str, Partial | None]  # a name, or {name: its parameters}


class AxisValues(Closed):
    """An axis: the setting that it varies, and its values."""

    key: str = Field(description="Dotted key of the setting: `method.params.ema`.")
    values: Values = Field(
        description="The values in the order of tables, each once; `all` for target and seed: every domain "
        "of the run's data set, and the seeds that the protocol names."
    )

    @field_validator("values", mode="before", json_schema_input_type=Values)
    @classmethod
    def _values(cls, values: Any) -> Any:
        if values != "all" and not isinstance(values, list):
            raise ValueError("must be a list of values, or `all`")
        return values


class Adapt(Closed):
    """An additional row of tables: a method's runs, adapted to their held-out domain without its labels."""

    run: str = Field(description="The row below `methods` whose runs are adapted.")
    name: str = Field(description="The adaptation, one of `fedshift list evaluations` that adapts.")
    params: Partial = Field({}, description="Parameters of the adaptation.")


class Tune(Closed):
    """The search before the final runs, which finds their methods' settings by validation (docs/tuning.md).

    It covers the `grid` of the protocol and of each method's preset, without what a row or an axis sets.
    """

    budget: Annotated[int, Field(ge=1)] | Literal["grid"] = Field(
        description="Points that are tried for each row, as many for each, spread over its search space; "
        "`grid`: all points of each row's grid, as papers do, few for a method with few parameters."
    )
    seeds: list[int] = Field(min_length=1, description="Seeds of the search; no final run may have them.")
    spec: Partial = Field(
        {},
        description="What differs from the final runs, a part of a run's specification: `{federation: "
        "{rounds: 100}}`.",
    )
    axes: dict[str, list[Any]] = Field(
        {},
        description="Axis -> the values on it that are tuned, together: one choice for all values of the "
        "axis. Each value of an axis that is not here has a choice of its own.",
    )
    like: dict[str, str] = Field(
        {}, description="Row -> the row whose choice it takes; it is not tuned itself."
    )


class Compared(Closed):
    """A side of a claim: runs of a row, of this experiment or another."""

    row: str = Field(description="The row.")
    where: dict[str, Any] = Field({}, description="Axis -> value, beside those of the claim.")
    metric: str = Field("", description="Its metric, where it is not the claim's.")
    rounds: str = Field(
        "", pattern=f"^({ROUNDS})?$", description="Its rounds, where they are not the claim's."
    )
    experiment: str = Field("", description="The experiment that the row is of, where it is another.")
    range: list[str] = Field(
        [],
        description="Further rows: the side is then the largest value of all of them and the row, less the "
        "smallest, seed by seed.",
    )
    peak: list[str] = Field(
        [],
        description="Further rows, in the place of `range`: the side is then where among the row and these, "
        "in this order, the value is largest, seed by seed: 0 is the first, 100 the last.",
    )
    plus: list[Compared] = Field([], description="Further runs, which are added.")
    minus: list[Compared] = Field([], description="Further runs, which are subtracted: a gain.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Compared:
        if self.range and self.peak:
            raise ValueError("has both `range` and `peak`: a side is one of them")
        return self


class Claim(Closed):
    """How a row of reference/claims.csv is judged (fedshift.analysis.claims), if that does not follow from
    its columns.
    """

    metric: str = Field(description="The metric that the paper compares, as tables name it.")
    where: dict[str, Any] = Field(
        {}, description="Axis -> the value to which the claim is confined; others are averaged."
    )
    rows: dict[str, str | Compared | list[str | Compared]] = Field(
        {},
        description="What the paper calls a method -> the row of this experiment, where they differ; a row "
        "at values of its own: {row: .., where: {axis: value}}; several of these, of which each is compared.",
    )
    rounds: str = Field(
        SELECTED,
        pattern=f"^({ROUNDS})$",
        description="Of which rounds the metric is: `selected`, the one that tables show; `round 40`; "
        "`mean` over all that were evaluated; `fluctuation`, the standard deviation of its steps.",
    )
    subject: list[str] = Field(
        [],
        description="Settings of this file (dotted keys) that the claim is about: that they are not the "
        "paper's usual ones makes it no other experiment.",
    )
    margin: float | None = Field(
        None,
        description='Within how much "~" calls two rows equal, in the unit of the metric; left out: the '
        "margin of the claim's paper in reference/published.yaml, in percentage points.",
    )


class Hypothesis(Closed):
    """A hypothesis, declared before the runs are trained, that they confirm or refute
    (fedshift.analysis.hypotheses).
    """

    text: str = Field(description="The hypothesis in one sentence.")
    compare: str = Field(
        pattern=r"^\S+ [>~] \S+$",
        description="Two rows: `a > b` (better), or `a ~ b` (level within `margin`).",
    )
    metric: str = Field("ood", description="`<metric>.<aggregation over clients>`, higher is better.")
    margin: dict[str, float] = Field({}, description="Data set -> margin of `~`, in percentage points.")
    level: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="1 minus the coverage of its intervals: smaller where several looks are planned.",
    )
    spread: Literal["rows", "pair"] = Field(
        "rows",
        description="Of the interval: pooled over all rows, or of the two rows' differences alone, for a row "
        "whose spread is known to be larger.",
    )

    @property
    def left(self) -> str:
        """The row before the sign."""
        return self.compare.split()[0]

    @property
    def relation(self) -> str:
        """`>` or `~`."""
        return self.compare.split()[1]

    @property
    def right(self) -> str:
        """The row after the sign."""
        return self.compare.split()[2]


class Table(Closed):
    """Rows are methods; columns are the values of `columns`, each with `metrics`; other axes are averaged,
    seeds last.
    """

    title: str = Field("", description="Its heading; without one its name.")
    printed: list[str] = Field(
        [],
        description="The paper's tables whose numbers its cells stand beside, as reference/published.csv "
        "names them: each printed number has one cell in all experiments (docs/results/coverage.csv).",
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
        "is of accuracy: `id`, mean over clients of their own test accuracy; `ood`, the held-out domain's; "
        "`all`, as id, weighted by training images; `avg`, id under the name that FDSE prints; `worst`, "
        "`std`, `pooled`. Besides: `cost.<name>`, `rounds_to.ood=60`, "
        "`setting.<dotted key>`, `layer.<part>.<number>`; and `gain.` or `ratio.` before one of them, "
        "relative to the row `against` (docs/write-an-experiment.md).",
    )
    against: str = Field(
        "",
        description="The row that `gain.` (its value less the cell's) and `ratio.` (the cell's over its "
        "value) are relative to, run by run at the same values on all axes.",
    )
    select: list[Rule] = Field(
        [], description="Rules that choose the round, side by side; none: the protocol's."
    )


class Experiment(Closed):
    """One file below experiments/: a published table or figure. Its name is its path without suffix
    ("hfedf/table2").
    """

    name: str = Field(description="Its path below experiments/ without suffix; not a key of the file.")
    title: str = Field(description="What it is, in one line.")
    paper: str = Field(
        "", description="The paper's short name in reference/published.csv; empty for one of ours."
    )
    notes: list[str] = Field([], description="What a reader must know, a sentence or two each.")
    protocol: str = Field(description="The file below reference/protocols/ that its runs follow.")
    preset: str = Field("default", description="A preset of that protocol.")
    spec: Partial = Field(
        {}, description="What differs from the protocol for all methods, a part of a run's specification."
    )
    methods: dict[str, Partial | None] = Field(
        min_length=1,
        description="Row -> what differs for it, a part of a run's specification, with `preset:` of the "
        "method if any; null for nothing. A row of another name than its method's says `method: {name: ..}`.",
    )
    axes: dict[str, AxisValues] = Field(
        description="What is varied: `target`, `seed`, or a dotted key with its values; or a name of your "
        "own with the key and its values, `alpha: {key: method.params.ema, values: [0.5, 1.0]}`. Tables, "
        "`only` and claims call an axis by its name here."
    )
    only: dict[str, dict[str, list[Any]]] = Field(
        {}, description="Row -> axis -> the values to which the row is confined."
    )
    tune: Tune | None = Field(
        None, description="How its methods are tuned before it is trained; null: they are not."
    )
    adapt: dict[str, Adapt] = Field({}, description="Further rows: adapted runs.")
    evaluations: list[Entry] = Field(
        [],
        description="What is computed of all its runs from their kept weights: kinds, or {kind: its "
        "parameters}: `fedshift list evaluations`.",
    )
    tables: dict[str, Table] = Field({}, description="Its tables by name.")
    figures: list[Entry] | None = Field(
        None,
        description="Kinds of figures, or {kind: its parameters}: `fedshift list figures`. Left out: "
        "`curves`, and `claims` where the experiment tests some.",
    )
    published: dict[str, str | list[str]] = Field(
        {},
        description='Row, or "*" for all others -> run_key in reference/published.csv; `{method}`, '
        "`{<axis>}` and the `{layer}` of a column are filled in. Of several, where networks differ by data "
        "set, the first that is printed; none: `[]`.",
    )
    claims: dict[str, Claim] = Field(
        {}, description="Id of a row of reference/claims.csv -> how it is judged."
    )
    hypotheses: dict[str, Hypothesis] = Field(
        {}, description="Name -> what its runs are to confirm or refute, declared before they are trained."
    )
    train: bool = Field(
        True,
        description="Whether its runs are trained; false where its tables show only what declarations say "
        "(`setting`, `layer`, counted costs).",
    )

    @field_validator("axes", mode="before", json_schema_input_type=dict[str, AxisValues | Values])
    @classmethod
    def _axes(cls, axes: Any) -> Any:
        """Expand the short form `<key>: <values>`, an axis with the name of its key; `target` means
        `data.target`.
        """
        if not isinstance(axes, dict):
            return axes
        return {
            name: value
            if isinstance(value, dict | AxisValues)
            else {"key": HELD_OUT if name == "target" else name, "values": value}
            for name, value in axes.items()
        }

    @field_validator("methods", "axes", "adapt", "tables", mode="before")
    @classmethod
    def _names(cls, named: Any) -> Any:
        """Check names of rows and tables, which become names of files."""
        for name in named if isinstance(named, dict) else ():
            if isinstance(name, str) and not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name: files bear it, so neither slash nor dot before it")
        return named

    @model_validator(mode="after")
    def _hypotheses(self) -> Experiment:
        """Check that hypotheses compare existing rows, and that `~` has a margin for each data set."""
        datasets = self.axes["data.dataset"].values if "data.dataset" in self.axes else []
        for name, one in self.hypotheses.items():
            for row in (one.left, one.right):
                if row not in self.rows:
                    raise ValueError(f"hypotheses.{name}: {row!r} is not a row of `methods`")
            lacking = [of for of in datasets if of not in one.margin]
            if one.relation == "~" and (lacking or not one.margin):
                raise ValueError(f"hypotheses.{name}: `~` requires a margin for each data set of the axes")
        return self

    @property
    def file(self) -> str:
        """Its file, for messages."""
        return f"experiments/{self.name}.yaml"

    def templates(self, row: str) -> list[str]:
        """The templates of `published` for a row; empty if there are none."""
        published = self.published.get(row, self.published.get("*", []))
        return [published] if isinstance(published, str) else published

    @property
    def tests_claims(self) -> bool:
        """Whether it declares claims, or shows measurements of a paper, which claims may be about."""
        printed = [metric for table in self.tables.values() if table.printed for metric in table.metrics]
        return bool(self.claims) or not all(metric.startswith(("setting.", "layer.")) for metric in printed)

    @property
    def rows(self) -> list[str]:
        """The rows of its tables: each method, followed by its adapted rows."""
        below = {row: [one for one, of in self.adapt.items() if of.run == row] for row in self.methods}
        return [one for row in self.methods for one in (row, *below[row])]
