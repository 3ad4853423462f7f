"""What a training step of every method asks of a device: launches, megabytes, GFLOPs; written into launches.csv.

Rounds are played on the `meta` device (fedshift.testing.launches, which names the work sizes), so the numbers are the same everywhere. step_*: of a
step, the mean over a round of three clients with 20 steps each; rest_*: of the rest of such a round, without evaluation. `bare` is a
step without a federation. Precision is fp32: casts of autocast are not seen. A method that does not suit a network has no row.
`--estimate` reads the file and says what every step takes on the devices of devices.csv.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

from fedshift.errors import FedshiftError
from fedshift.federation.launches import Count
from fedshift.files import write_text
from fedshift.planning.roofline import devices, seconds
from fedshift.registry import names
from fedshift.testing.launches import WORK, asked, bare
from fedshift.workspace import Workspace

OUT = Path(__file__).parent / "launches.csv"
FIELDS = ("launches", "mb", "gflop")


def rows(methods: list[str], works: list[str]) -> dict[tuple[str, str], dict[str, str]]:
    """(work, method) -> row."""
    found = {}
    for work in works:
        found[work, "bare"] = row(work, "bare", bare(WORK[work]), Count())
        for method in methods:
            try:
                one = asked(method, WORK[work])
            except FedshiftError as error:
                print(f"{work}, {method}: {error}")
                continue
            found[work, method] = row(work, method, one.step, one.rest)
            print(work, method, found[work, method]["step_launches"], flush=True)
    return found


def row(work: str, method: str, step: Count, rest: Count) -> dict[str, str]:
    """A line of the file."""
    return {"work": work, "method": method, **told("step", step), **told("rest", rest)}


def told(part: str, count: Count) -> dict[str, str]:
    """A count as it is written."""
    values = (f"{count.launches:.1f}", f"{count.bytes / 1e6:.2f}", f"{count.flops / 1e9:.4f}")
    return {f"{part}_{field}": value for field, value in zip(FIELDS, values, strict=True)}


def known(path: Path = OUT) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of the file, none where it is absent."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {(one["work"], one["method"]): one for one in csv.DictReader(file)}


def write(found: dict[tuple[str, str], dict[str, str]]) -> None:
    """Put rows in place of those of the same work and method."""
    every = known() | found
    order = {work: place for place, work in enumerate(WORK)}
    first = {"bare": 0, "fedavg": 1}
    keys = sorted(every, key=lambda key: (order[key[0]], first.get(key[1], 2), key[1]))
    text = io.StringIO()
    writer = csv.DictWriter(text, every[keys[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(every[key] for key in keys)
    write_text(OUT, text.getvalue())


def estimates() -> None:
    """Milliseconds of a step of every row, by device, with what bounds it."""
    known_devices = devices(Workspace(OUT.parents[1]))
    print(f"{'work':14} {'method':12} " + " ".join(f"{name:>16}" for name in known_devices))
    for (work, method), one in known().items():
        step = Count(
            float(one["step_launches"]), 1e6 * float(one["step_mb"]), 1e9 * float(one["step_gflop"])
        )
        cells = (seconds(step, device, "fp32") for device in known_devices.values())
        print(f"{work:14} {method:12} " + " ".join(f"{1e3 * time:7.2f} {bound:>8}" for time, bound in cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="*", default=list(names("methods")))
    parser.add_argument("--work", nargs="*", default=list(WORK))
    parser.add_argument("--estimate", action="store_true")
    options = parser.parse_args()
    if options.estimate:
        return estimates()
    for work in options.work:
        write(rows(options.methods, [work]))


if __name__ == "__main__":
    main()
