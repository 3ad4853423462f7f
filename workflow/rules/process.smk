# The main Snakemake as a process: SIGTERM and a closed terminal end it as Ctrl-C does, and locks of one that was killed (-9, a reboot)
# are removed.
import atexit
import contextlib
import signal
import socket

import psutil
from fedshift.common.files import hold, holder

HOLDERS = Path(".snakemake/fedshift").absolute()  # a file for each Snakemake that works in this folder
STOPPED = []


def stop(number, frame):
    """End as after Ctrl-C. Jobs on this machine are told as well; a second SIGTERM ends them at once."""
    first = not STOPPED  # asked before the rest, in which a second signal may come
    STOPPED.append(number)
    if number == signal.SIGHUP and not first:
        return
    for child in psutil.Process().children():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(child.pid) == os.getpgrp():  # others, as the follower, end by themselves
                os.kill(child.pid, signal.SIGTERM)
    if first:
        raise KeyboardInterrupt


def heed_signals():
    for number in (signal.SIGTERM, signal.SIGHUP):
        if workflow.is_main_process and signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)


def clear_locks():
    """Remove Snakemake's locks, which name no process, where every other Snakemake that worked here has ended; else say which one has
    not."""
    ours = HOLDERS / f"{socket.gethostname()}.{os.getpid()}.json"
    hold(ours)  # until this process ends
    atexit.register(ours.unlink, missing_ok=True)
    locks, living = [*Path(".snakemake/locks").glob("*.lock")], []
    for path in {*HOLDERS.glob("*.json")} - {ours}:
        process = holder(path)
        if process:
            living.append(f"process {process.pid} on {process.host}")
        else:
            path.unlink(missing_ok=True)
    if locks and living:
        unlock = f"fedshift run {shlex.quote(REQUEST.experiments[0])} -- --unlock"
        print(
            f"Another Snakemake works in this folder: {', '.join(living)}. Wait for it or stop it.",
            file=sys.stderr,
        )
        print(f"If its machine is gone: {unlock}", file=sys.stderr)
    elif locks:
        for path in locks:
            path.unlink(missing_ok=True)
        print("Removed the locks of a Snakemake that was killed.", file=sys.stderr)


heed_signals()
if workflow.is_main_process and "--unlock" not in sys.argv:
    with contextlib.suppress(OSError):  # a folder that this user may only read
        clear_locks()
