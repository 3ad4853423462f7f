"""The version of the package, and the commit of its sources."""

import os
import shutil
import subprocess
from pathlib import Path

__version__ = "0.1.0"
SOURCES = Path(__file__).resolve().parents[3]  # the checkout, where the package runs from one


def commit(checkout: Path = SOURCES) -> str:
    """The commit of the checkout with the running sources, marked if its code (src) has uncommitted changes.

    "" if the sources are not a checkout: an installed package, or an unpacked archive, also one inside
    another repository.
    """
    local = {name for name in os.environ if name.startswith("GIT_") and not name.startswith("GIT_CONFIG")}
    environment = {name: value for name, value in os.environ.items() if name not in local}

    def git(*words: str) -> str:
        command = ["git", "-C", str(checkout), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        return done.stdout.strip()

    if not shutil.which("git") or Path(git("rev-parse", "--show-toplevel")) != checkout.resolve():
        return ""
    name = git("rev-parse", "--verify", "--quiet", "HEAD")
    differs = name and git("status", "--porcelain", "--", "src")
    return f"{name} with uncommitted changes" if differs else name
