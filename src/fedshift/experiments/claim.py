"""What an experiment's file says of a claim: which rows are compared, where, and by which metric."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from fedshift.spec import Closed

SELECTED = "selected"  # of a claim: the round that tables show
ROUNDS = r"selected|mean|fluctuation|round \d+"
COST_MARGIN = 0.1  # the share of a cost within which "~" calls two equal


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
    """How a row of reference/claims.csv is judged (fedshift.analysis.claims), where that does not follow from
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
        description="Of which rounds the metric is: `selected`, the one that tables show; `round 40`; `mean` "
        "over all that were evaluated; `fluctuation`, the standard deviation of its steps.",
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
