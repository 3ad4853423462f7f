"""A few minutes on a GPU that is elsewhere: what training steps cost there, whether CUDA graphs train the same, and then experiments' runs.

Here, in a checkout with the raw images (or decoded ones):

    python benchmarks/gpu_minutes.py pack unified/first_pass hfedf/table2 --file build/gpu/campaign.tar --mib 48

plans the experiments for a GPU and packs what is neither trained nor archived: the first seed of all before the second, experiments as named, whole
rows of their tables, cheap rows first. With them go decoded images (compressed without loss: at 64 px PACS takes 37 MiB, Office-Caltech10 10 MiB),
partitions, and checkpoints of unfinished runs.

There, in a copy of the checkout with build/gpu (ignored by git, so it is to be named to what copies the rest):

    PYTHONPATH=src python benchmarks/gpu_minutes.py run --data build/gpu/campaign.tar --minutes 9 --out $OUT

It needs torch, torchvision, numpy, pandas, pyarrow, pydantic, safetensors, Pillow, PyYAML, tqdm, scikit-learn and pytest; of a missing package a wheel can
lie in build/gpu, too: `pip install --no-index --no-deps --target /tmp/site build/gpu/*.whl`, and /tmp/site in PYTHONPATH.
results-archive/ and docs/ are not needed there: after `pack`, `git sparse-checkout set --no-cone '/*' '!/results-archive/' '!/docs/'` leaves 5 MB of the
checkout, and `git sparse-checkout disable` brings them back.

$OUT gets at most 7 files, of 15 MiB each and 60 together: results.jsonl, a line as soon as it is known; runs-N.tar, archive files of finished runs;
unfinished-N.tar, directories of runs with a checkpoint. Each part has processes of its own, and fails alone:

probe: milliseconds of a step: bare loop, and a round of FedAvg without and with graphs.
check: each steady method trained for 3 rounds without graphs, so with the learning rate on the device as graphs need it (`rate`), by graphs, and
    so again: relative distances of the weights (0: the same bits); one method in bf16.
campaign: packed runs in --processes at once, under MPS where it works. A method is trained by graphs where check found it within CLOSE of `rate`. A run that
    is not expected to end in time is left to others. 25 s before the end, processes stop after the round under way.

Here again:

    python benchmarks/gpu_minutes.py take $OUT/*.tar

checks the archive files and writes them below results-archive/, and unfinished runs below results/runs, where the next command that trains or packs them
resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from gpu_check import PRECISIONS, WORK, bare, distance, federated, hardware, trained
from gpu_runs import add, checkpointed, facts, pack, take, unpacked

from fedshift.archive import store
from fedshift.common.registry import names
from fedshift.common.version import commit
from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import method
from fedshift.training import run as training
from fedshift.training.device import deterministic
from fedshift.training.pack import Stop

CLOSE = 1e-3  # relative distance of weights after 3 rounds: rounding; a batch that was not copied moves them further
STOPPING = 25.0  # seconds for the last rounds, and to pack them
STEPS = {"w32": 50, "alexnet": 12, "resnet18": 16}  # of an epoch of a client, as in the papers' data sets


def tell(out: Path, **facts: Any) -> None:
    """A line of results.jsonl, and of the output."""
    line = json.dumps({**facts, "time": round(time.time(), 1)})
    print(line, flush=True)
    with (out / "results.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(line + "\n")


# ------------------------------------------------------------------------------------------- probe and check


def probe(out: Path, device: torch.device, works: list[str], stop: float) -> None:
    """Milliseconds of a step; fp32 of every work first."""
    deterministic(device)  # what cuBLAS reads when CUDA starts; each measurement chooses its kernels
    torch.use_deterministic_algorithms(False)
    tell(out, part="probe", hardware=hardware(device))
    for precision, name, how in itertools.product(PRECISIONS[device.type], works, ("bare", "eager", "graph")):
        if time.time() > stop:
            return
        with failing_alone(out, part="probe", work=name, precision=precision, how=how) as row:
            if how == "bare":
                seconds = bare(name, precision, device)
            else:
                seconds = federated(name, precision, device, how, STEPS.get(name, 10))
            tell(out, **row, ms=round(1e3 * seconds, 3), images_per_s=round(WORK[name].batch / seconds))


def check(out: Path, device: torch.device, methods: list[str], stop: float) -> None:
    """Relative distances of weights, of steady methods."""
    deterministic(device)
    for name in (name for name in methods if method(name).steadiness):
        if time.time() > stop:
            return
        with failing_alone(out, part="check", method=name) as row:
            hows = ("rate", "graph", "graph", "eager")
            rate, graph, again, eager = (trained(name, device, how)[0] for how in hows)
            near = {"rate": distance(rate, graph), "again": distance(graph, again)}
            tell(out, **row, **near, eager=distance(eager, graph))
    with failing_alone(out, part="check", method="fedavg", precision="bf16") as row:
        pair = (trained("fedavg", device, "graph", precision)[0] for precision in ("fp32", "bf16"))
        tell(out, **row, fp32=distance(*pair))


@contextlib.contextmanager
def failing_alone(out: Path, **facts: Any) -> Iterator[dict[str, Any]]:
    """In the block, an error is a line, and what comes next goes on."""
    try:
        yield facts
    except Exception as error:
        tell(out, **facts, failed=f"{type(error).__name__}: {error}"[:300])


def in_its_own_process(out: Path, part: Callable[..., None], *options: Any, stop: float) -> None:
    """Play a part in a process that is ended 20 s after `stop`."""
    process = get_context("spawn").Process(target=part, args=(out, *options, stop))
    process.start()
    process.join(max(1.0, stop + 20 - time.time()))
    if process.exitcode != 0:
        process.kill()
        tell(out, part=part.__name__, failed=f"exit status {process.exitcode} (None: out of time)")


# ---------------------------------------------------------------------------------------------------- campaign


def campaign(out: Path, device: torch.device, options: argparse.Namespace, end: float) -> None:
    """Train packed runs until `end`; what is finished is packed at once."""
    workspace = Workspace(options.work)
    runs = unpacked(options.data, workspace)
    close = {} if options.graph == "off" else graphs(out)
    context, doing, started = get_context("spawn"), dict[Connection, Run | None](), 0
    processes, began = {}, dict[str, float]()
    spent = planned = 0.0

    def start() -> None:
        nonlocal started
        ours, theirs = context.Pipe()
        process = context.Process(target=worker, args=(theirs, workspace.root, device.type, end - STOPPING))
        process.start()
        theirs.close()
        doing[ours], processes[ours], started = None, process, started + 1

    for _ in range(options.processes):
        start()
    while doing and time.time() < end:
        for pipe in wait([*doing], timeout=1.0):
            assert isinstance(pipe, Connection)
            try:
                state, words = pipe.recv()
            except EOFError:
                state, words = "died", "see the output"
            if run := doing[pipe]:
                seconds = time.time() - began[run.directory]
                done = {"run": run.directory, "graph": close.get(run.method, "off")}
                failed = {"failed": words} if words else {}
                tell(out, part="campaign", state=state, **done, seconds=round(seconds, 1), **failed)
                if state == "finished":
                    spent, planned = spent + seconds, planned + 60 * run.minutes
                    with failing_alone(out, part="campaign", **done):
                        archived = store.pack(workspace, workspace.run_at(run.directory))
                        name = archived.path.relative_to(workspace.root).as_posix()
                        add(out, "runs", {name: archived.data})
            if state in ("died", "stopped"):
                del doing[pipe]
                if state == "died" and started < 2 * options.processes and time.time() < end - 60:
                    start()
                continue
            run = chosen(runs, end - STOPPING - time.time(), spent / planned if planned else 1.0)
            doing[pipe] = run
            if run:
                began[run.directory] = time.time()
                pipe.send((RunSpec.model_validate_json(run.spec), close.get(run.method, "off")))
            else:
                pipe.send(None)
                del doing[pipe]
    for process in processes.values():
        process.join(max(0.1, end - time.time()))
        process.kill()
    for directory in began:
        with failing_alone(out, part="campaign", run=directory):
            if files := checkpointed(workspace, workspace.run_at(directory)):
                add(out, "unfinished", files)


def chosen(runs: list[Run], left: float, scale: float) -> Run | None:
    """The next run that ends in `left` seconds by the plan's estimate, scaled; else the shortest, for its checkpoint."""
    fitting = (run for run in runs if 60 * run.minutes * scale <= left)
    run = next(fitting, min(runs, key=lambda run: run.minutes, default=None))
    if run is None or left < 5:
        return None
    runs.remove(run)
    return run


def worker(pipe: Connection, root: Path, device: str, stop: float) -> None:
    """Train the runs that come through the pipe, one after the other; at `stop` ends with a checkpoint."""

    def alarm(*_: object) -> None:
        if not isinstance(signal.getsignal(signal.SIGTERM), Stop):
            sys.exit()
        signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, stop - time.time()))
    packed = facts(Workspace(root))  # without git there the commit is known by the sources' hash
    noted = commit() or (packed["commit"] if packed["sources"] == planfile.sources_key() else "")
    try:
        pipe.send(("ready", ""))
        while task := pipe.recv():
            spec, graph = task
            try:
                machine = training.Machine(torch.device(device), 1, graph=graph)
                with mock.patch.object(training, "commit", lambda: noted):
                    training.train(Workspace(root), spec, machine)
                answer = "finished", ""
            except Exception as error:
                answer = "failed", f"{type(error).__name__}: {error}"[:300]
            pipe.send(answer)
    except SystemExit:
        pipe.send(("stopped", ""))


def graphs(out: Path) -> dict[str, str]:
    """Method -> "auto" where its graphs trained as eager steps did in this session."""
    rows = map(json.loads, (out / "results.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["method"]: "auto" for row in rows if row["part"] == "check" and row.get("rate", 1.0) <= CLOSE}


@contextlib.contextmanager
def mps(out: Path, wanted: bool) -> Iterator[None]:
    """In the block, processes share the GPU by NVIDIA's MPS, where it can be started and works."""
    control, works = shutil.which("nvidia-cuda-mps-control") if wanted else None, False
    with tempfile.TemporaryDirectory() as folder:
        places = dict.fromkeys(("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"), folder)
        silent: Any = {"env": {**os.environ, **places}, "stdout": subprocess.DEVNULL, "timeout": 60}
        if control:
            with failing_alone(out, part="mps"):
                subprocess.run([control, "-d"], check=True, **silent)
                program = "import torch; torch.zeros(9).cuda().sum().item()"
                subprocess.run([sys.executable, "-c", program], check=True, **silent)
                works = True
        tell(out, part="mps", works=works)
        try:
            with mock.patch.dict(os.environ, places if works else {}):
                yield
        finally:
            if control:
                with failing_alone(out, part="mps"):
                    subprocess.run([control], input=b"quit\n", check=False, **silent)


def run(options: argparse.Namespace) -> None:
    """Probe and check in at most a quarter and 0.3 of the minutes, then the campaign."""
    began, device = time.time(), torch.device(options.device)
    out, end = options.out, began + 60 * options.minutes
    out.mkdir(parents=True, exist_ok=True)
    options.work.mkdir(parents=True, exist_ok=True)
    tell(out, part="start", torch=torch.__version__, cores=os.cpu_count(), minutes=options.minutes)
    for part, what, share in ((probe, options.probe, 0.25), (check, options.check, 0.3)):
        if what:
            in_its_own_process(out, part, device, what, stop=time.time() + share * 60 * options.minutes)
    if options.data:
        with failing_alone(out, part="campaign"), mps(out, options.mps and device.type == "cuda"):
            campaign(out, device, options, end)
    tell(out, part="end", seconds=round(time.time() - began))


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    packing, running, taking = (verbs.add_parser(name) for name in ("pack", "run", "take"))
    packing.set_defaults(verb=pack)
    packing.add_argument("experiments", nargs="+")
    packing.add_argument("--root", type=Path, default=Path())
    packing.add_argument("--file", type=Path, default=Path("build/gpu/campaign.tar"))
    packing.add_argument("--mib", type=int, default=48, help="The most that images take.")
    packing.add_argument("--runs", type=int, default=200, help="The most runs that are packed.")
    running.set_defaults(verb=run)
    running.add_argument("--minutes", type=float, default=9.0)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--data", type=Path, help="What `pack` wrote; without it there is no campaign.")
    running.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    running.add_argument("--probe", nargs="*", choices=[*WORK], default=[*STEPS], metavar="WORK")
    running.add_argument("--check", nargs="*", default=[*names("methods")], metavar="METHOD")
    running.add_argument("--graph", choices=("auto", "off"), default="auto")
    running.add_argument("--processes", type=int, default=4)
    running.add_argument("--no-mps", dest="mps", action="store_false")
    running.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fedshift-minutes")
    taking.set_defaults(verb=take)
    taking.add_argument("files", nargs="+", type=Path)
    taking.add_argument("--root", type=Path, default=Path())
    options = parser.parse_args(None if words is None else [*words])
    options.verb(options)


if __name__ == "__main__":
    main()
