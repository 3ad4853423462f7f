"""A project folder in which tests run real snakemake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fedshift import planfile

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

    def snakemake(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            key: value for key, value in os.environ.items() if key not in ("FEDSHIFT_PLAN", "PYTHONPATH")
        }
        command = [sys.executable, "-m", "snakemake", "--profile", "profiles/ci", *arguments]
        return subprocess.run(
            command,
            cwd=self.root,
            env=inherited | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def run(self, *targets: str) -> str:
        done = self.snakemake(*targets)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def to_train(self, *targets: str) -> list[str]:
        """The methods of the runs that a dry run would train."""
        output = self.run("--dry-run", *targets)
        packs = re.findall(
            r"^rule train:\n(?:    .*\n)*?    wildcards: pack=([0-9a-f]{16})", output, re.MULTILINE
        )
        assert ("rule train:" in output) == bool(packs)
        return sorted(run.method for pack in packs for run in planfile.runs(self.plan, pack=pack))

    @property
    def plan(self) -> Path:
        """The plan that was made last."""
        return max((self.root / "results" / "plan").glob("*.db"), key=lambda path: path.stat().st_mtime_ns)

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
