"""What benchmarks/methods.csv says of a method's round."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

CSV = Path(__file__).parents[2] / "benchmarks" / "methods.csv"
SAME_STEPS = "local"  # its steps are FedAvg's: its difference to FedAvg's round is noise


@dataclass(frozen=True)
class Round:
    """A round's seconds over FedAvg's; how far rounds lie apart, over their median, if that was recorded; each hook's part."""

    factor: float
    spread: float | None
    hooks: dict[str, float]


def measured() -> dict[str, Round]:
    """Every method that was measured."""
    with CSV.open(newline="") as file:
        return {row["method"]: _round(row) for row in csv.DictReader(file)}


def _round(row: dict[str, str]) -> Round:
    factor = float(row["factor"]) * float(row.get("images") or 1)
    spread = float(row["spread"]) if row.get("spread") else None
    facts = ("method", "seconds", "factor", "images", "passes", "outside", "spread")
    return Round(factor, spread, {key: float(value) for key, value in row.items() if key not in facts})


def noise(rounds: dict[str, Round]) -> float:
    """What is taken for the spread where none was recorded."""
    return abs(rounds[SAME_STEPS].factor - 1)


def round_line(name: str, rounds: dict[str, Round]) -> str:
    """One line: a round over FedAvg's, its spread, and by how many of FedAvg's rounds hooks differ, where that is more than the spread."""
    own, base = rounds[name], rounds["fedavg"]
    spread = noise(rounds) if own.spread is None else own.spread
    recorded = "" if own.spread is None else f" (spread {own.spread:.0%})"
    more = {hook: share * own.factor - base.hooks[hook] for hook, share in own.hooks.items()}
    hooks = [f"{hook} {extra:+.2f}" for hook, extra in more.items() if abs(extra) > spread * own.factor]
    return f"One round: {own.factor:.2f} of FedAvg's{recorded}" + (f": {', '.join(hooks)}." if hooks else ".")
