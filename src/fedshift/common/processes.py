"""Work on several cores, where items are independent."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any

from fedshift.common.cores import usable_cores

MOST = 4  # processes: each loads torch, half a gigabyte
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextlib.contextmanager
def spread(items: int) -> Iterator[Each]:
    """In the block, a `map` that works in processes of their own, from the call on; with one core or item it
    is Python's, which works when it is asked for a result. Work and items are pickled. An error of the work
    is raised at its item, and what was not begun is left out; processes end with this one, even if it is
    killed.
    """
    workers = min(items, usable_cores(), MOST)
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
