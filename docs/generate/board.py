"""docs/which-method.md: every method's accuracy and cost, and hypotheses, from the kept tables of the archive."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
UNIFIED = ROOT / "docs" / "results" / "unified"
DATASETS = {"office_caltech10": "Office", "pacs": "PACS"}
FEDAVG = "fedavg"
STEPS = "fedavg-6-epochs"  # FedAvg with as many steps as CCST, which trains on three renderings of each image
WEIGHTS = "fedavg-uniform"
BOTH = "fedavg-uniform-6-epochs"
LONGER = ("ccst-rgb", STEPS, BOTH)  # rows with three times the steps
Cells = dict[tuple[str, str, str], tuple[float, int]]  # (row, data set, metric) -> accuracy, seeds


def board() -> str:
    """A table of all methods, by accuracy on held-out domains."""
    cells, intervals, compared = _cells(), _intervals(), _compared()
    heads = ["method", "held out", "over FedAvg", "at equal steps"]
    heads += [f"{metric}, {name}" for metric in ("held out", "own") for name in DATASETS.values()]
    heads += ["time", "seeds"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in sorted({row for row, _, _ in cells}, key=lambda row: -_mean(cells, row, "ood")):
        held_out = _mean(cells, row, "ood")
        values = [f"{held_out:.1f}", intervals.get(row) or _over(cells, row, FEDAVG)]
        values += [_over(cells, row, BOTH if row in LONGER else WEIGHTS) if row in compared else ""]
        values += [f"{cells[row, data, metric][0]:.1f}" for metric in ("ood", "id") for data in DATASETS]
        values += [f"{_time(row):.1f}", str(min(cells[row, data, "ood"][1] for data in DATASETS))]
        name = f"[{row}](methods.md#{_method(row)})" if not row.startswith("fedavg-") else f"`{row}`"
        lines.append(f"| {name} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def hypotheses() -> str:
    """A table of the declared hypotheses, with verdict and interval on each data set."""
    declared = load(Workspace(ROOT), "unified/confirm").hypotheses
    cells: dict[str, list[str]] = {}
    for row in _rows("confirm/hypotheses.csv"):
        interval = "{:+.1f} [{:+.1f}, {:+.1f}]"
        numbers = [float(row[name]) for name in ("difference", "low", "high") if row[name]]
        text = f"**{row['verdict']}**: {interval.format(*numbers)}" if numbers else row["verdict"]
        cells.setdefault(row["hypothesis"], []).append(text)
    lines = [f"| hypothesis | {' | '.join(DATASETS.values())} |", "|---|---|---|"]
    lines += [f"| {declared[name].text} | {' | '.join(of)} |" for name, of in cells.items()]
    return "\n".join(lines)


def _rows(file: str) -> Iterator[dict[str, str]]:
    with (UNIFIED / file).open(newline="") as lines:
        yield from csv.DictReader(lines)


def _cells() -> Cells:
    """The accuracies of all rows; those of FedAvg's variants are in the two comparisons."""
    files = ("first_pass/unified.csv", "equal_steps/steps.csv", "equal_weights/weights.csv")
    return {
        (row["method"], row["data.dataset"], row["metric"]): (float(row["mean"]), int(row["seeds"]))
        for file in files
        for row in _rows(file)
    }


def _mean(cells: Cells, row: str, metric: str) -> float:
    return sum(cells[row, dataset, metric][0] for dataset in DATASETS) / len(DATASETS)


def _over(cells: Cells, row: str, other: str) -> str:
    difference = round(_mean(cells, row, "ood") - _mean(cells, other, "ood"), 1)
    return f"{difference + 0:+.1f}"  # without -0.0


def _intervals() -> dict[str, str]:
    """Method -> its difference from FedAvg in bold where the simultaneous interval leaves out 0."""
    found = {}
    for row in _rows("first_pass/ranks.csv"):
        if row["low"]:
            text = f"{float(row['difference']):+.1f}"
            found[row["method"]] = f"**{text}**" if float(row["low"]) * float(row["high"]) > 0 else text
    return found


def _compared() -> set[str]:
    """The rows that are compared with FedAvg with uniform weights."""
    return {row["method"] for row in _rows("equal_weights/weights.csv")} - {FEDAVG, STEPS, WEIGHTS, BOTH}


def _method(row: str) -> str:
    return {"ccst-rgb": "ccst"}.get(row, row)


def _time(row: str) -> float:
    """Training time of a round over FedAvg's."""
    with (ROOT / "benchmarks" / "methods.csv").open(newline="") as file:
        known = {one["method"]: one for one in csv.DictReader(file)}
    if (method := _method(row)) not in known:  # FedAvg's variants
        return 3.0 if row in LONGER else 1.0
    return float(known[method]["images"]) * float(known[method]["factor"])
