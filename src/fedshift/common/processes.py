"""Other programs and processes, cores and caches. Standard library only: the Snakefile needs it."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

PATIENCE = 15.0  # seconds for an answer
MOST = 4  # processes: each loads torch, half a gigabyte
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


def answer_of(*words: str) -> str | None:
    """The output of a command; None if it fails, hangs or does not exist."""
    env = {**os.environ, "COLUMNS": "10000"}  # some programs break long lines
    try:
        return subprocess.check_output(words, env=env, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return None


def usable_cores() -> int:
    """The number of cores that the process may use, at least 1.

    Without an affinity (macOS), these are all cores.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def spread(items: int, most: int | None = None) -> Iterator[Each]:
    """Yield a `map` that works in separate processes for the block.

    For one process or item it is Python's `map`, which works when a result is requested. Work and items are
    pickled. An error is raised at its item, and work that has not begun is cancelled. The processes end with
    this one, even if it is killed.

    `items`: how many there are.
    `most`: the largest number of processes, by default the usable cores, up to MOST.
    """
    workers = min(items, most or min(usable_cores(), MOST))
    if workers < 2:
        yield map
        return
    # spawned: a process that has threads (torch's) must not be forked
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_leave_with_parent)
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def spare_home(root: Path) -> None:
    """Make Snakemake, DVC, torch and matplotlib use `.cache` below `root` if home is not writable."""
    caches, home = root.absolute() / ".cache", Path(os.path.expanduser("~"))
    own = os.environ.get("XDG_CACHE_HOME") or (home / ".cache" if home.is_dir() else "")
    if not home.is_dir():
        caches.mkdir(exist_ok=True)
        os.environ["HOME"] = str(caches)
    if own:
        with contextlib.suppress(OSError):
            Path(own).mkdir(parents=True, exist_ok=True)
    if not (own and Path(own).is_dir() and os.access(own, os.W_OK)):
        os.environ["XDG_CACHE_HOME"] = str(caches)
        os.environ.setdefault("MPLCONFIGDIR", str(caches / "matplotlib"))
