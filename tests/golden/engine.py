"""What every method trains, bit for bit: 3 rounds on three clients of handwritten digits, each in its colours, on one thread.

Four cases a method, in which each two of participation, augmentation and precision meet in every combination; Adam and SGD take turns.
`engine.json` contains three numbers a case for all machines, and SHA-256 of all that a run keeps for each class of machine that it was made on.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedshift.archive.machine import MachineClass
from fedshift.common.files import read_json, write_json
from fedshift.common.registry import names
from fedshift.federation.loop import Federation
from fedshift.federation.precision import arithmetic
from fedshift.federation.records import MEASURED
from fedshift.spec.resolve import resolve
from fedshift.testing.digits import digits
from fedshift.testing.toys import finish, spec, tensors
from fedshift.training.device import environment

FILE = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
TRAIN = (44, 24, 40)  # images of each client
VAL, TEST = 6, 8
DESIGN = (
    (1.0, "none", "fp32"),
    (1.0, "domainbed", "bf16"),
    (0.67, "none", "bf16"),
    (0.67, "domainbed", "fp32"),
)
# Distances between instruction sets, four times what was measured between SSE and AVX2: of the length of what training moved, relative;
# of its projection on a fixed direction, in units of that length.
TOLERANCE = {"fp32": (1e-3, 0.08), "bf16": (1e-2, 0.3)}


class Case(NamedTuple):
    """One training: of which method, by how many of the clients, with which augmentation, in which precision."""

    method: str
    participation: float
    augment: str
    precision: str

    def __str__(self) -> str:
        return ", ".join(map(str, self))


class Result(NamedTuple):
    """bits: SHA-256 of state, records and diagnostics; moved: length of what training moved; projection: of that on a fixed direction;
    loss: mean of the recorded training losses.
    """

    bits: str
    moved: float
    projection: float
    loss: float

    @property
    def numbers(self) -> dict[str, float]:
        return {name: float(f"{getattr(self, name):.9g}") for name in ("moved", "projection", "loss")}


def cases() -> list[Case]:
    return [Case(method, *design) for method in names("methods") for design in DESIGN]


def machine() -> str:
    """The class of this machine, by which bits are kept."""
    return str(MachineClass.of(environment(CPU, 1, "")))


def result(case: Case) -> Result:
    """Train a case."""
    adam = names("methods").index(case.method) % 2
    optimizer = {"optimizer": "adam", "lr": 1e-3} if adam else {"optimizer": "sgd", "lr": 0.02}
    run = resolve(
        spec(
            method={"name": case.method},
            local={"batch": 16, "epochs": 1, "precision": case.precision, **optimizer},
            federation={"rounds": 3, "participation": case.participation},
            evaluation={"keep": "none"},
        )
    )
    torch.set_num_threads(1)
    with arithmetic(case.precision, CPU):
        federation = Federation(
            run,
            run.method.build(),
            lambda: run.model.build(10, run.data.input_px),
            *digits(case.augment, TRAIN, VAL, TEST),
        )
        before = {name: value.clone() for name, value in tensors(federation).items()}
        after = tensors(finish(federation))
    moved = torch.cat(
        [
            (value - before[name]).double().flatten()
            for name, value in sorted(after.items())
            if name in before and value.is_floating_point() and value.shape == before[name].shape
        ]
    )
    direction = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], len(moved)))
    losses = [row["value"] for row in federation.records.rows if row["metric"] == "loss"]
    return Result(
        _bits(after, federation),
        float(moved.norm()),
        float(moved @ direction / len(moved) ** 0.5),
        float(np.mean(losses)),
    )


def _bits(state: Mapping[str, Tensor], federation: Federation) -> str:
    sha256 = hashlib.sha256()
    for name, value in sorted(state.items()):
        sha256.update(name.encode())
        sha256.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    diagnosed = (row for table in federation.log.table.rows for row in table.to_pylist())
    for row in (*federation.records.rows, *federation.statistics.rows, *diagnosed):
        if row.get("stage") not in MEASURED:
            told = {key: value for key, value in row.items() if key != "time"}
            sha256.update(json.dumps(told, sort_keys=True, default=np.ndarray.tolist).encode())
    return sha256.hexdigest()


def distances(case: Case, found: Mapping[str, float], golden: Mapping[str, float]) -> list[str]:
    """What is further from the golden numbers than instruction sets are from each other."""
    length, along = TOLERANCE[case.precision]
    unit = golden["moved"]
    limits = {"moved": length * unit, "projection": along * unit, "loss": 10 * length * golden["loss"]}
    return [
        f"{case}: {name} is {found[name]}, not {golden[name]}"
        for name, limit in limits.items()
        if not abs(found[name] - golden[name]) <= limit
    ]


def golden() -> dict[str, Any]:
    """{numbers: {case: {moved, projection, loss}}, bits: {class of machine: {case: SHA-256}}}"""
    return read_json(FILE) or {"numbers": {}, "bits": {}}


def rewrite(revision: str | None = None) -> None:
    """Write the bits of this machine's class, of the code here or of another revision, and the numbers of cases that are new or moved."""
    found = at(revision) if revision else {str(case): result(case)._asdict() for case in cases()}
    known = golden()
    numbers = {}
    for case in cases():
        new = Result(**found[str(case)]).numbers
        old = known["numbers"].get(str(case))
        numbers[str(case)] = new if old is None or distances(case, new, old) else old
    bits = {**known["bits"], machine(): {name: one["bits"] for name, one in found.items()}}
    write_json(FILE, {"numbers": numbers, "bits": dict(sorted(bits.items()))})


def at(revision: str) -> dict[str, dict[str, Any]]:
    """The results of another revision, by its own copy of this file."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, revision], cwd=ROOT, check=True)
        try:
            environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
            command = [sys.executable, "-m", "tests.golden", "print"]
            done = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    by_case: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return by_case
