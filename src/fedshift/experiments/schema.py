"""Schema of experiment files; closed, so a misspelled key is an error."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedshift.experiments.protocols import Partial, Rule
from fedshift.spec import Closed

SELECTED = "selected"  # of a claim: the round that tables show
ROUNDS = r"selected|mean|fluctuation|round \d+"
COST_MARGIN = 0.1  # the share of a cost within which "~" calls two equal
METRIC = "metric"  # among the columns of a table: the place of its metrics
WRITTEN = ("table", "claims", "hypotheses", "ranks", "searched")  # files next to those of tables
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
        description="Distinct values in the order of tables. `all`: for target, every domain of the data "
        "set; for seed, the protocol's seeds."
    )

    @field_validator("values", mode="before", json_schema_input_type=Values)
    @classmethod
    def _values(cls, values: Any) -> Any:
        if values != "all" and not isinstance(values, list):
            raise ValueError("must be a list of values, or `all`")
        return values


class Adapt(Closed):
    """An additional row of tables: a method's runs, adapted to their held-out domain without its labels."""

    run: str = Field(description="The row of `methods` whose runs are adapted.")
    name: str = Field(description="An evaluation that adapts the model (see `fedshift list evaluations`).")
    params: Partial = Field({}, description="Parameters of the adaptation.")


class Tune(Closed):
    """The search before the final runs, which finds their methods' settings by validation (docs/tuning.md).

    It covers the `grid` of the protocol and of each method's preset, without what a row or an axis sets.
    """

    budget: Annotated[int, Field(ge=1)] | Literal["grid"] = Field(
        description="Number of points tried for each row, spread over its search space. `grid`: all points "
        "of each row's grid, as in papers; rows with fewer parameters then have fewer points."
    )
    seeds: list[int] = Field(min_length=1, description="Seeds of the search; final runs must not use them.")
    spec: Partial = Field(
        {},
        description="Settings that differ from the final runs, a partial run specification: `{federation: "
        "{rounds: 100}}`.",
    )
    axes: dict[str, list[Any]] = Field(
        {},
        description="Axis -> values tuned together, with one choice for all values of the axis. On any other "
        "axis, each value has its own choice.",
    )
    like: dict[str, str] = Field(
        {}, description="Row -> the row whose choice it uses instead of its own search."
    )


class Compared(Closed):
    """A side of a claim: runs of a row, of this experiment or another."""

    row: str = Field(description="Row of the experiment.")
    where: dict[str, Any] = Field({}, description="Axis -> value, in addition to those of the claim.")
    metric: str = Field("", description="Metric, if it is not the claim's.")
    rounds: str = Field("", pattern=f"^({ROUNDS})?$", description="Rounds, if they are not the claim's.")
    experiment: str = Field("", description="Experiment of the row, if it is another one.")
    range: list[str] = Field(
        [],
        description="Other rows. The side is then the largest minus the smallest value of these and the row, "
        "seed by seed.",
    )
    peak: list[str] = Field(
        [],
        description="Other rows, instead of `range`. The side is then the position of the largest value "
        "among the row and these, in order, seed by seed: 0 for the first, 100 for the last.",
    )
    plus: list[Compared] = Field([], description="Other runs, whose values are added.")
    minus: list[Compared] = Field([], description="Other runs, whose values are subtracted (a gain).")

    @model_validator(mode="after")
    def _one_of_both(self) -> Compared:
        if self.range and self.peak:
            raise ValueError("has both `range` and `peak`: a side is one of them")
        return self

    @property
    def parts(self) -> list[Compared]:
        """This side, followed by all that is added to it or subtracted."""
        return [self, *(part for other in (*self.plus, *self.minus) for part in other.parts)]


class Claim(Closed):
    """How a row of reference/claims.csv is judged (fedshift.analysis.claims), if that does not follow from
    its columns.
    """

    metric: str = Field(description="The metric that the paper compares, by its name in tables.")
    where: dict[str, Any] = Field(
        {}, description="Axis -> the only value used for the claim; other axes are averaged."
    )
    rows: dict[str, str | Compared | list[str | Compared]] = Field(
        {},
        description="The paper's name of a method -> the row of this experiment, if they differ; {row: .., "
        "where: {axis: value}} for a row at other values; or a list of these, each of which is "
        "compared.",
    )
    rounds: str = Field(
        SELECTED,
        pattern=f"^({ROUNDS})$",
        description="Rounds of the metric: `selected`, as in tables; `round 40`; `mean` over all evaluated "
        "rounds; `fluctuation`, the standard deviation of changes between them.",
    )
    subject: list[str] = Field(
        [],
        description="Settings of this file (dotted keys) that the claim is about. They may differ from the "
        "paper's usual settings.",
    )
    margin: float | None = Field(
        None,
        description='Margin within which "~" considers two rows equal, in the unit of the metric. Default: '
        "the margin of the paper in reference/published.yaml, in percentage points.",
    )

    @property
    def sides(self) -> dict[str, list[Compared]]:
        """The paper's name of a method -> the sides that `rows` declares for it."""
        found: dict[str, list[Compared]] = {}
        for name, rows in self.rows.items():
            several = rows if isinstance(rows, list) else [rows] if rows else []
            found[name] = [one if isinstance(one, Compared) else Compared(row=one) for one in several]
        return found


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
        description="1 minus the coverage of intervals; smaller if several looks are planned.",
    )
    spread: Literal["rows", "pair"] = Field(
        "rows",
        description="Spread of the interval: pooled over all rows, or of the two rows' differences only, for "
        "rows with larger spread.",
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

    title: str = Field("", description="Heading; by default the table's name.")
    printed: list[str] = Field(
        [],
        description="The paper's tables to compare with, by their names in reference/published.csv. Each "
        "published number has one cell in all experiments (docs/results/coverage.csv).",
    )
    columns: list[str] = Field(
        [],
        description="Axes whose values are columns, outermost first. `metric` is the level of metrics; by "
        "default the innermost.",
    )
    metrics: list[str] = Field(
        ["id", "ood"],
        min_length=1,
        description="`<metric>.<aggregation over clients>` (see `fedshift list metrics`). An aggregation "
        "alone refers to accuracy: `id`, mean over clients on their own test samples; `ood`, on "
        "the held-out domain; `all`, as id, weighted by training images; `avg`, FDSE's name of "
        "id; `worst`, `std`, `pooled`. Also `cost.<name>`, `rounds_to.ood=60`, `setting.<dotted "
        "key>`, `layer.<part>.<number>`. The prefixes `gain.` and `ratio.` make any of them "
        "relative to the row `against` (docs/write-an-experiment.md).",
    )
    against: str = Field(
        "",
        description="Reference row of `gain.` (its value minus the cell's) and `ratio.` (the cell's value "
        "divided by its own), run by run at the same values on all axes.",
    )
    select: list[Rule] = Field(
        [], description="Rules that select the round, shown side by side; by default the protocol's."
    )

    @property
    def axes(self) -> list[str]:
        """The axes among the columns."""
        return [column for column in self.columns if column != METRIC]


class Experiment(Closed):
    """One file below experiments/: a published table or figure. Its name is its path without suffix
    ("hfedf/table2").
    """

    name: str = Field(description="Path below experiments/ without suffix; not a key of the file.")
    title: str = Field(description="Title in one line.")
    paper: str = Field(
        "", description="The paper's short name in reference/published.csv; empty for our own."
    )
    notes: list[str] = Field([], description="Notes for readers, one or two sentences each.")
    protocol: str = Field(description="Name of a file below reference/protocols/.")
    preset: str = Field("default", description="Preset of the protocol.")
    spec: Partial = Field(
        {}, description="Settings of all methods that differ from the protocol, a partial run specification."
    )
    methods: dict[str, Partial | None] = Field(
        min_length=1,
        description="Row -> its own settings, a partial run specification, optionally with `preset:` of the "
        "method; null for none. A row whose name is not a method requires `method: {name: ..}`.",
    )
    axes: dict[str, AxisValues] = Field(
        description="Settings to vary: `target`, `seed` or a dotted key, with values; or a custom name with "
        "key and values, `alpha: {key: method.params.ema, values: [0.5, 1.0]}`. Tables, `only` "
        "and claims refer to axes by these names."
    )
    only: dict[str, dict[str, list[Any]]] = Field(
        {}, description="Row -> axis -> the only values used for the row."
    )
    tune: Tune | None = Field(None, description="How methods are tuned before training; null for no tuning.")
    adapt: dict[str, Adapt] = Field({}, description="Additional rows of adapted runs, by name.")
    evaluations: list[Entry] = Field(
        [],
        description="Evaluations computed from the saved weights of all runs: names, or {name: parameters} "
        "(see `fedshift list evaluations`).",
    )
    tables: dict[str, Table] = Field({}, description="Tables by name.")
    figures: list[Entry] | None = Field(
        None,
        description="Figures: names, or {name: parameters} (see `fedshift list figures`). Default: `curves`, "
        "and `claims` if the experiment tests claims.",
    )
    published: dict[str, str | list[str]] = Field(
        {},
        description='Row, or "*" for all others -> run_key in reference/published.csv, in which `{method}`, '
        "`{<axis>}` and the `{layer}` of a column are replaced. In a list (networks that differ "
        "by data set), the first published one counts; `[]` for none.",
    )
    claims: dict[str, Claim] = Field(
        {}, description="Id of a row of reference/claims.csv -> how it is judged."
    )
    hypotheses: dict[str, Hypothesis] = Field(
        {}, description="Name -> hypothesis that the runs confirm or refute, declared before training."
    )
    train: bool = Field(
        True,
        description="Whether runs are trained; false if tables show only declared values (`setting`, "
        "`layer`, counted costs).",
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
    def _names(cls, named: Any, info: ValidationInfo) -> Any:
        """Check names of rows and tables, which become names of files."""
        for name in named if isinstance(named, dict) else ():
            if info.field_name == "tables" and name in WRITTEN:
                raise ValueError(f"'{name}' is the name of another file of the tables: choose another one")
            if isinstance(name, str) and not NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a valid name of a file: no slash, and no dot at the beginning"
                )
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

    def entry(self, row: str) -> tuple[str, Partial]:
        """The preset that a row's entry names, and the rest of the entry."""
        own = dict(self.methods[row] or {})
        return str(own.pop("preset", "default")), own

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
