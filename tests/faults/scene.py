"""What a fault finds: a project whose experiment is being trained, its disk, its MLflow server."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fedshift.common.files import Holder, holder
from fedshift.planning import planfile
from tests.faults.disk import Disk, mounted, why_none
from tests.faults.processes import end_all, of_folder, until
from tests.faults.writers import Writers
from tests.slurm.results import finished
from tests.tracking.server import Server
from tests.workflow.checkout import Checkout

EXPERIMENT = """\
title: "Under fire"
protocol: digits
spec:
  data: {{input_px: 16}}
  partition: {{fractions: [0.2, 0.1, 0.7]}}
  federation: {{rounds: {rounds}}}
  local: {{epochs: 1}}
  evaluation: {{every: 5}}
methods: {{fdse: , fedrd: , hfedf: , stablefdg: }}
axes: {{target: [texture], seed: {seeds}}}
tables: {{main: {{columns: [target]}}}}
"""
PARAMETERS = "experiments: [demo]\npack: 2\nparallel: 2\n"
IN_PEACE = "experiments: [demo]\npack: 4\nparallel: 1\n"  # the same runs, one after the other
RUNS = 4  # of one act: the four headline methods, a seed


class Missed(Exception):
    """The victim ended by itself before it was struck."""


@dataclass(frozen=True)
class Victim:
    """A living process that trains a run."""

    path: Path
    holder: Holder

    @property
    def pid(self) -> int:
        return self.holder.pid


def experiment(rounds: int, acts: int) -> str:
    """The experiment that is fired at; each act adds a seed."""
    return EXPERIMENT.format(rounds=rounds, seeds=list(range(acts)))


def undisturbed(checkout: Checkout, rounds: int, acts: int) -> None:
    """Train the same in peace; what an earlier call trained stays."""
    (checkout.root / "experiments" / "demo.yaml").write_text(experiment(rounds, acts))
    checkout.run("metrics")
    assert len(finished(checkout.root)) == RUNS * acts


@dataclass
class Scene:
    """The project, what is around it, and the dice that choose."""

    checkout: Checkout
    rounds: int
    dice: random.Random
    server: Server
    writers: Writers
    disk: Disk | None
    log: IO[str]
    acts: int = 0
    snakemake: subprocess.Popen[str] | None = None
    struck: float = 0.0
    pause: float = 0.0
    anew: set[Path] = field(default_factory=set)  # folders of runs that started anew

    def next_act(self) -> None:
        """Ask for more runs, and watch who writes them."""
        self.acts += 1
        (self.checkout.root / "experiments" / "demo.yaml").write_text(experiment(self.rounds, self.acts))
        done = self.dry_run()
        assert done.returncode == 0, done.stdout
        self.plan = self.checkout.plan  # others are made while somebody edits
        self.runs = planfile.runs(self.plan)
        self.writers.watch(self.checkout.root / run.directory for run in self.runs)

    def stamps(self) -> list[Path]:
        """Of the packs that are asked for, whether they are there or not; those of earlier acts mean nothing."""
        return sorted({self.checkout.root / "results" / "packs" / f"{run.stamp}.json" for run in self.runs})

    def start(self) -> None:
        """What a user does after a crash: unlock, start again."""
        if any((self.checkout.root / ".snakemake" / "locks").glob("*")):
            self.checkout.snakemake("--unlock", **self.environment)
        self.snakemake = self.checkout.start(
            "metrics", "--retries", "3", output=self.log, FEDSHIFT_TRACK="1", **self.environment
        )

    def dry_run(self) -> subprocess.CompletedProcess[str]:
        """Make the plan of what is asked for, as `start` would, and train nothing."""
        return self.checkout.snakemake("--dry-run", "metrics", **self.environment)

    @property
    def ended(self) -> bool:
        """Whether Snakemake is no longer there."""
        return self.snakemake is None or self.snakemake.poll() is not None

    @property
    def environment(self) -> dict[str, str]:
        return {"FEDSHIFT_CHECKPOINT_SECONDS": "0.3", "MLFLOW_TRACKING_URI": self.server.uri}

    def begin(self, *arguments: str, log: str) -> subprocess.Popen[str]:
        """Start a verb of fedshift by hand; log: the file below logs/ to which it writes."""
        root = self.checkout.root
        with open(root / "logs" / log, "a") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "fedshift", *arguments],
                cwd=root,
                env={**os.environ, **self.environment, "PYTHONPATH": str(root / "src")},
                text=True,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def fedshift(self, *arguments: str) -> str:
        """What a verb of fedshift prints."""
        log = self.checkout.root / "logs" / "verb.log"
        log.unlink(missing_ok=True)
        self.begin(*arguments, log=log.name).wait()
        return log.read_text()

    def note(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} campaign: {text}", file=self.log, flush=True)

    # ---- victims

    def victims(self) -> list[Victim]:
        """All, in the order of their runs' names."""
        paths = sorted((self.checkout.root / "results" / "runs").rglob("lock.json"))
        return [Victim(path, who) for path in paths if (who := holder(path)) and who.pid]

    def victim(self) -> Victim:
        """One of them."""
        if not (victims := self.victims()):
            raise Missed
        return self.dice.choice(victims)

    def due(self) -> bool:
        """Whether to strike now: three times in four once a run has got on since the last time, else as soon as one is being trained."""
        if not (victims := self.victims()):
            return False
        paths = [victim.path.with_name("checkpoint.safetensors") for victim in victims]
        if self.pause and not any(path.exists() and path.stat().st_mtime > self.struck for path in paths):
            return False
        time.sleep(self.pause)
        self.struck = time.time()
        self.pause = self.dice.choice([0, 1, 1, 1]) * self.dice.uniform(0.1, 1)
        return True

    def until(self, condition: Any, seconds: float = 60) -> None:
        """Wait for a fault's effect. Raises Missed where it does not come."""
        if not until(condition, seconds):
            raise Missed

    def pack_of(self, folder: Path) -> str:
        """The pack of the run in this folder."""
        return next(run.pack for run in self.runs if run.digest == folder.name)


@contextlib.contextmanager
def staged(folder: Path, calm: Checkout, rounds: int, seed: int) -> Iterator[Scene]:
    """A scene below `folder`, with the images of `calm`. At the end of the block nothing of it is left: process, mount."""
    checkout = Checkout.made(folder / "fired", {}, PARAMETERS)
    (checkout.root / "results").mkdir()
    shutil.copytree(calm.root / "data", checkout.root / "data")
    (folder / "server").mkdir()
    with contextlib.ExitStack() as stack:
        disk = None
        if not why_none(folder / "mount"):
            disk = stack.enter_context(mounted(checkout.root / "results"))
        writers = Writers()
        stack.callback(writers.close)
        stack.callback(end_all, folder)
        server = stack.enter_context(Server(folder / "server"))
        # where a shell started this in the background, children would ignore Ctrl-C
        stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        log = stack.enter_context(open(folder / "campaign.log", "a"))
        yield Scene(checkout, rounds, random.Random(seed), server, writers, disk, log)
    assert until(lambda: not of_folder(folder), 15), of_folder(folder)
    assert str(folder) not in Path("/proc/mounts").read_text()
