"""Caches of other programs, where the home folder cannot be written: on compute nodes, in containers."""

from __future__ import annotations

import os
from pathlib import Path


def spare(root: Path) -> None:
    """Let Snakemake, DVC, torch and matplotlib use `.cache` below `root` where the home folder is missing or
    read-only.
    """
    caches, home = root.absolute() / ".cache", Path(os.path.expanduser("~"))
    own = os.environ.get("XDG_CACHE_HOME") or (home / ".cache" if home.is_dir() else "")
    if not home.is_dir():
        caches.mkdir(exist_ok=True)
        os.environ["HOME"] = str(caches)
    if not own or not _writable(Path(own)):
        os.environ["XDG_CACHE_HOME"] = str(caches)
        os.environ.setdefault("MPLCONFIGDIR", str(caches / "matplotlib"))


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made if absent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
