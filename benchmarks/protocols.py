"""The first rounds of every protocol on real photographs, with FedAvg: who trains on how much, how the loss falls.

Protocols stand as declared, schedules included, but for the start (preset `scratch`) and the size of images where a ResNet at 224 px would take a CPU minutes a round
(SMALLER). Needs both data sets:

    fedshift fetch pacs --from FOLDER, fedshift prepare pacs --px 64, and the same for office_caltech10 with --px 256
    python benchmarks/protocols.py --csv        (after each protocol: protocols.csv, which docs/protocols.md shows)
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from fedshift.data.load import load as load_data
from fedshift.data.partition import partition
from fedshift.experiments import load
from fedshift.experiments.expand import expand
from fedshift.experiments.schema import Experiment
from fedshift.federation.loop import Federation
from fedshift.federation.records import SCHEMA
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.tracking.points import points
from fedshift.training.assemble import assemble

OUT = Path(__file__).parent / "protocols.csv"
SMALLER = {"data": {"dataset": "pacs", "prepare": {"px": 64}, "input_px": 32}}
OFFICE = {"data": {"dataset": "office_caltech10"}}
PLAN: dict[str, tuple[dict[str, Any], str | None]] = {
    "fdse": (OFFICE, None),
    "fdse_unseen": (OFFICE, "dslr"),
    "fedrd": (SMALLER, "photo"),
    "hfedf": ({"data": {"dataset": "pacs"}}, "photo"),
    "stablefdg": (SMALLER, "photo"),
    "stablefdg_multi": (SMALLER, "photo"),
    "stablefdg_n3": (SMALLER, "photo"),
    "unified": ({"data": {"dataset": "pacs"}}, "photo"),
}


def declared(root: Path, protocol: str) -> RunSpec:
    """FedAvg's run under a protocol with its own number of rounds, evaluated after each."""
    spec, target = PLAN[protocol]
    presets = load.protocol(Workspace(root), protocol).presets
    declaration: dict[str, Any] = {
        "preset": "scratch" if "scratch" in presets else "default",
        "name": f"first rounds of {protocol}", "title": protocol, "protocol": protocol, "methods": {"fedavg": None},
        "spec": spec | {"evaluation": {"every": 1}}, "axes": {"target": [target], "seed": [0]},
    }  # fmt: skip
    (cell,) = expand(Workspace(root), Experiment.model_validate(declaration))
    return cell.spec


def play(federation: Federation, rounds: int) -> dict[str, list[float]]:
    """Loss (mean over samples), clients and images of every round."""
    for _ in federation.run():
        if federation.round == rounds:
            break
    seen: dict[str, list[float]] = defaultdict(list)
    for t in range(1, rounds + 1):
        trained = [row for row in federation.records.rows if (row["round"], row["stage"]) == (t, "train")]
        seen["clients"].append(len(trained))
        seen["images"].append(sum(row["n"] for row in trained))
        seen["loss"].append(sum(row["value"] * row["n"] for row in trained) / seen["images"][-1])
    return seen


def row(workspace: Workspace, protocol: str, rounds: int, device: torch.device) -> dict[str, Any]:
    spec = declared(workspace.root, protocol)
    partition(workspace, spec)
    federation, _ = assemble(spec, load_data(workspace, spec), device)
    seen = play(federation, rounds)
    records = pa.Table.from_pylist(federation.records.rows, SCHEMA)
    after = {
        (point.name, point.round): point.value
        for point in points(records, partition=spec.partition.model_dump())
    }
    sizes = [len(client.train) for client in federation.evaluated_clients]
    return {
        "protocol": protocol,
        "images": f"{spec.data.dataset}, {spec.data.input_px} px",
        "network": spec.model.name,
        "clients": f"{seen['clients'][0]:g} of {len(sizes)}",
        "held": f"{min(sizes)} to {max(sizes)}",
        "trained": " ".join(f"{value:,g}" for value in seen["images"]),
        "loss": " ".join(f"{value:.2f}" for value in seen["loss"]),
        "in": f"{100 * after['acc/id', rounds]:.1f}",
        "out": "" if spec.data.target is None else f"{100 * after['acc/ood', rounds]:.1f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--protocols", nargs="*", default=list(PLAN), choices=list(PLAN))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--csv", action="store_true", help=f"write {OUT.name}, which docs/protocols.md shows")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    workspace = Workspace(Path.cwd())
    rows = _known() if options.csv else {}
    for protocol in options.protocols:
        rows[protocol] = row(workspace, protocol, options.rounds, torch.device(options.device))
        print(", ".join(f"{key} {value}" for key, value in rows[protocol].items()), flush=True)
        if options.csv:
            _write([rows[name] for name in PLAN if name in rows])


def _known() -> dict[str, dict[str, Any]]:
    """What is in the file already, by protocol."""
    if not OUT.is_file():
        return {}
    with OUT.open(newline="") as file:
        return {row["protocol"]: row for row in csv.DictReader(file)}


def _write(rows: list[dict[str, Any]]) -> None:
    with OUT.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
