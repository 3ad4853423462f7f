"""The shell commands of a page, and a copy of the checkout in which a test runs them as its reader would."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

COPIED = (
    "src", "tests", "experiments", "reference", "workflow", "profiles", "slurm", "benchmarks", "examples",
    "results-archive", "Snakefile", "Makefile", "params.yaml", "pyproject.toml", "constraints.txt",
)  # fmt: skip
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(^|\s)# .*$")
ACTIVATE = "source .venv/bin/activate"
OURS = ("FEDSHIFT_", "SNAKEMAKE_", "VIRTUAL_ENV")  # of the shell that tests


def commands(page: Path) -> list[str]:
    """In order, without comments; what lies between `<<'END'` and END belongs to its command."""
    found: list[str] = []
    for block in BLOCK.findall(page.read_text()):
        lines = iter(block.splitlines())
        for line in lines:
            command = COMMENT.sub("", line).strip()
            if command.endswith("<<'END'"):
                while not command.endswith("\nEND"):
                    command += "\n" + next(lines)
            if command:
                found.append(command)
    return found


def python_block(page: str, part: str) -> str:
    """The Python block of a page of docs/ that contains `part`."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL
    )
    (found,) = (block for block in blocks if part in block)
    return str(found)


def copied(root: Path) -> Path:
    """The checkout without data and results, with the present environment as its own."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "cluster.yaml")
            shutil.copytree(ROOT / name, root / name, ignore=left_out)
        else:
            shutil.copy2(ROOT / name, root / name)
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "activate").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
    return root


def play(root: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run it in bash, in the activated environment, with the sources of the copy; stderr is in stdout."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    paths = {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1", "FEDSHIFT_TRACK": "0"}
    return subprocess.run(
        ["bash", "-euc", f"{ACTIVATE}\n{command}"],
        cwd=root,
        env=inherited | paths,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
