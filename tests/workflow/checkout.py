"""A project folder in which tests run real snakemake."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fedshift.planning import planfile

REPOSITORY = Path(__file__).parents[2]
COPIED = ("src", "workflow", "profiles", "slurm", "reference", "benchmarks", "Snakefile")
TINY = """\
title: "{title}"
protocol: digits
spec: {{federation: {{rounds: 1}}, local: {{epochs: 1}}}}
methods:
{methods}
axes: {{target: [plain], seed: [0]}}
tables: {{main: {{columns: [target]}}}}
"""


@dataclass(frozen=True)
class Checkout:
    """A project folder of its own; `snakemake` runs there as a user would."""

    root: Path

    @classmethod
    def made(cls, root: Path, experiments: dict[str, str], parameters: str) -> Checkout:
        """A copy of the repository in `root`, with these experiments (name to text) and params.yaml in place of its own."""
        root.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            source = REPOSITORY / name
            if source.is_dir():
                left_out = shutil.ignore_patterns("*.pyc.*", "*.egg-info")  # compiled modules come along
                shutil.copytree(source, root / name, ignore=left_out)
            else:
                shutil.copy2(source, root / name)
        (root / "slurm" / "cluster.yaml").unlink(missing_ok=True)
        (root / "experiments").mkdir()
        for name, text in experiments.items():
            (root / "experiments" / f"{name}.yaml").write_text(text)
        (root / "params.yaml").write_text(parameters)
        return cls(root)

    def start(
        self,
        *arguments: str,
        profile: str = "profiles/ci",
        output: int | IO[str] = subprocess.PIPE,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Start snakemake in a process group of its own."""
        inherited = {
            key: value for key, value in os.environ.items() if key not in ("FEDSHIFT_PLAN", "PYTHONPATH")
        }
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--profile", profile, *arguments],
            cwd=self.root,
            env=inherited | {"FEDSHIFT_TRACK": "0"} | environment,
            text=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @contextmanager
    def verb(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """The copy's `fedshift` in a process group of its own, as a shell would start it."""
        inherited = {key: value for key, value in os.environ.items() if key != "FEDSHIFT_PLAN"}
        inherited["PYTHONPATH"] = str(self.root / "src")
        process = subprocess.Popen(
            [sys.executable, "-m", "fedshift", "--root", str(self.root), *arguments],
            env=inherited | {"FEDSHIFT_TRACK": "0", "SNAKEMAKE_PROFILE": "profiles/ci"} | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def snakemake(
        self, *arguments: str, profile: str = "profiles/ci", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, profile=profile, output=subprocess.PIPE, **environment)
        output, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def run(self, *targets: str) -> str:
        done = self.snakemake(*targets)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def python(self, *arguments: str) -> str:
        """The output of a program that runs the copy's own code."""
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src")}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def to_train(self, *targets: str) -> list[str]:
        """The methods of the runs that a dry run would train."""
        output = self.run("--dry-run", *targets)
        packs = re.findall(
            r"^Job \d+: rule train: .* \(pack [^/]+/[^/]+/([0-9a-f]{16})\)$", output, re.MULTILINE
        )
        assert ("rule train:" in output) == bool(packs)
        return sorted(run.method for pack in packs for run in planfile.runs(self.plan, pack=pack))

    @property
    def plan(self) -> Path:
        """The plan that was made last."""
        return max((self.root / "results" / "plan").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        (self.root / path).write_text(text.replace(old, new, 1))

    def append(self, path: str, text: str) -> str:
        """Append to a file; returns what it was."""
        before = (self.root / path).read_text()
        (self.root / path).write_text(before + text)
        return before


def tiny(title: str, *methods: str) -> str:
    """An experiment of one round on digits."""
    return TINY.format(title=title, methods="\n".join(f"  {method}:" for method in methods))
