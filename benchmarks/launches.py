"""What a training step of every method asks of a device: launches, megabytes, GFLOPs; written into launches.csv.

Rounds are played on the `meta` device (fedshift.testing.launches, which names the work sizes), so the numbers are the same everywhere. step_*: of a
step, the mean over a round of three clients with 20 steps each; rest_*: of the rest of such a round, without evaluation. `bare` is a
step without a federation. Precision is fp32: casts of autocast are not seen. A method that does not suit a network has no row.
`--estimate` reads the file and says what every step takes at least on the devices of fedshift/planning/devices.csv; `--against` sets the
measured rows of costs.csv beside their estimates.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from statistics import median

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from fedshift.common.registry import names
from fedshift.federation.launches import Count
from fedshift.planning.rates import ESTIMATED_FOR, image_seconds, measured
from fedshift.planning.roofline import devices, seconds
from fedshift.storage.workspace import Workspace
from fedshift.testing.launches import WORK, bare, demand

OUT = Path(__file__).parent / "launches.csv"
FIELDS = ("launches", "mb", "gflop")


def rows(methods: list[str], works: list[str]) -> dict[tuple[str, str], dict[str, str]]:
    """(work, method) -> row."""
    by_work = {}
    for work in works:
        by_work[work, "bare"] = row(work, "bare", bare(WORK[work]), Count())
        for method in methods:
            try:
                counted = demand(method, WORK[work])
            except FedshiftError as error:
                print(f"{work}, {method}: {error}")
                continue
            by_work[work, method] = row(work, method, counted.step, counted.rest)
            print(work, method, by_work[work, method]["step_launches"], flush=True)
    return by_work


def row(work: str, method: str, step: Count, rest: Count) -> dict[str, str]:
    """A line of the file."""
    return {"work": work, "method": method, **columns("step", step), **columns("rest", rest)}


def columns(part: str, count: Count) -> dict[str, str]:
    """A count as it is written."""
    values = (f"{count.launches:.1f}", f"{count.bytes / 1e6:.2f}", f"{count.flops / 1e9:.4f}")
    return {f"{part}_{field}": value for field, value in zip(FIELDS, values, strict=True)}


def known(path: Path = OUT) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of the file, none where it is absent."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {(row["work"], row["method"]): row for row in csv.DictReader(file)}


def write(rows: dict[tuple[str, str], dict[str, str]]) -> None:
    """Put rows in place of those of the same work and method."""
    every = known() | rows
    order = {work: place for place, work in enumerate(WORK)}
    first = {"bare": 0, "fedavg": 1}
    keys = sorted(every, key=lambda key: (order[key[0]], first.get(key[1], 2), key[1]))
    text = io.StringIO()
    writer = csv.DictWriter(text, every[keys[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(every[key] for key in keys)
    write_text(OUT, text.getvalue())


def estimates() -> None:
    """Milliseconds of a step of every row in fp32, by device, with what bounds it."""
    print(f"{'work':14} {'method':12} " + " ".join(f"{name:>16}" for name in devices()))
    for (work, method), row in known().items():
        launches, megabytes, gflop = (float(row[f"step_{field}"]) for field in FIELDS)
        step = Count(launches, 1e6 * megabytes, 1e9 * gflop)
        cells = (seconds(step, device, "fp32") for device in devices().values())
        print(f"{work:14} {method:12} " + " ".join(f"{1e3 * time:7.2f} {bound:>8}" for time, bound in cells))


def against() -> None:
    """Every measured row of costs.csv beside the estimate for its kind of device."""
    print("| row | measured, images/s | estimated | measured seconds over estimated |\n|---|---|---|---|")
    ratios: dict[str, list[float]] = {}
    for row in measured(Workspace(OUT.parents[1])):
        least = image_seconds(ESTIMATED_FOR[row.device], row.model, row.px, row.precision)
        ratio = 1 / least / row.images_per_second
        ratios.setdefault(row.device, []).append(ratio)
        print(f"| {row.device}: {row.name} | {row.images_per_second:.0f} | {1 / least:.0f} | {ratio:.2f} |")
    for device, of in ratios.items():
        print(f"\n{device}: median {median(of):.2f}, largest over smallest {max(of) / min(of):.2f}.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="*", default=list(names("methods")))
    parser.add_argument("--work", nargs="*", default=list(WORK))
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--against", action="store_true")
    options = parser.parse_args()
    if options.estimate:
        return estimates()
    if options.against:
        return against()
    for work in options.work:
        write(rows(options.methods, [work]))


if __name__ == "__main__":
    main()
