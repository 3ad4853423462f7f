"""A Slurm of its own on this machine: nodes with pretended GPUs, loopback only, no /etc files, no systemd.

python -m tests.slurm.cluster start|stop FOLDER; `start` prints the environment that commands need.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "sinfo")
ADMIN = f"{os.environ['PATH']}:/usr/sbin:/sbin"
CPUS, GPUS, MEMORY_MB = 8, 2, 64000  # of a node

CONFIGURATION = """\
ClusterName=fedshift
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
GresTypes={kinds}
SchedulerParameters=batch_sched_delay=0,bf_interval=2
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=10
MinJobAge={forgets}
SlurmdTimeout=10
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
TaskPlugin=task/none
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE DefMemPerCPU=500 State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=INFINITE DefMemPerCPU=500 State=UP PriorityTier=9 PreemptMode=OFF
"""


def missing(programs: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Those that this machine lacks."""
    return [name for name in programs if shutil.which(name, path=ADMIN) is None]


def require_slurm() -> None:
    """Skip the test where Slurm is not installed; fail it under FEDSHIFT_REQUIRE_SLURM=1."""
    if absent := missing():
        reason = f"not installed: {', '.join(absent)} (Debian: slurmctld slurmd slurm-client munge)"
        if os.environ.get("FEDSHIFT_REQUIRE_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def user() -> str:
    """The name of who runs this."""
    return pwd.getpwuid(os.getuid()).pw_name


def own_host_names() -> bool:
    """Whether this user may give processes a host name of their own."""
    return subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Cluster:
    """Daemons whose files and process ids lie in `folder`. Keep its path short: a socket's name may have 107 characters.

    share: what else of its GPUs a node gives out: "shard:8", "mps:200"; nothing where it is empty.
    forgets: seconds after which the controller forgets a job that ended.
    """

    folder: Path
    nodes: int = 2
    share: str = ""
    forgets: int = 300

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to find this cluster and no other, and to take its pretended GPUs for real ones."""
        found = {"SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": f"{self.folder}/bin:{ADMIN}"}
        return {**found, "FEDSHIFT_PRETEND_GPU": "1"}

    def call(self, *command: str, check: bool = True) -> str:
        """Output of a Slurm command."""
        done = subprocess.run(
            command, env=os.environ | self.environment, text=True, capture_output=True, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self) -> None:
        """Start munge, the controller and both nodes, and wait until the nodes are idle."""
        self._configure()
        munge = ["--force", "--num-threads=2", f"--key-file={self.folder}/munge.key"]
        munge += [f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munge.pid"]
        self.call(
            "munged", *munge, f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed"
        )
        self.call("slurmctld", "-c")
        self.wait(lambda: "UP" in self.call("scontrol", "ping", check=False))
        for node in range(self.nodes):
            self.start_node(node)
        self.wait(
            lambda: self.call("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).strip() == str(self.nodes)
        )

    def start_node(self, node: int) -> None:
        """Where that is allowed, under a host name of its own: to its jobs each node then is another machine."""
        command = f"slurmd -N n{node}"
        # slurmd listens where its host name leads: 127.0.0.1 as a number needs no /etc/hosts, and can be written in many ways
        host = f"0x{'0' * node}7f000001"
        own = ["unshare", "--uts", "sh", "-c", f"hostname {host} && exec {command}"]
        self.call(*(own if own_host_names() else command.split()))

    def stop(self) -> None:
        """End the jobs, then every daemon by its process id."""
        for job in self.call("squeue", "-h", "-o", "%i", check=False).split():
            self.call("scancel", job, check=False)
        with contextlib.suppress(TimeoutError):
            self.wait(lambda: not self.call("squeue", "-h", check=False).strip(), 20)
        for name in (*(f"slurmd-n{node}" for node in range(self.nodes)), "slurmctld", "munge"):
            self.stop_daemon(name)

    def stop_daemon(self, name: str, number: int = signal.SIGTERM) -> None:
        path = self.folder / f"{name}.pid"
        if not path.exists():
            return
        pid = int(path.read_text())
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            self.wait(lambda: not Path(f"/proc/{pid}").exists(), 15)
        path.unlink(missing_ok=True)

    def _configure(self) -> None:
        for name in ("state", "bin", "gpus"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        host = socket.gethostname().partition(".")[0]
        ports = free_ports(self.nodes + 1)
        shared = f",{self.share}" if self.share else ""
        each = f"CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:{GPUS}{shared} State=UNKNOWN"
        nodes = "\n".join(
            f"NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[node + 1]} {each}"
            for node in range(self.nodes)
        )
        kind, _, count = self.share.partition(":")
        text = CONFIGURATION.format(
            host=host, user=user(), folder=self.folder, ports=ports, nodes=nodes,
            kinds=f"gpu,{kind}" if kind else "gpu",
            forgets=self.forgets,
        )  # fmt: skip
        (self.folder / "slurm.conf").write_text(text)
        lines = []
        for node in range(self.nodes):
            for gpu in range(GPUS):
                device = self.folder / "gpus" / f"n{node}-{gpu}"
                device.symlink_to("/dev/null")
                lines.append(f"NodeName=n{node} Name=gpu File={device} Flags=nvidia_gpu_env\n")
            lines += [f"NodeName=n{node} Name={kind} Count={count}\n"] if kind else []
        (self.folder / "gres.conf").write_text("".join(lines))
        self._shims()

    def _shims(self) -> None:
        """The plugin drops SLURM_CONF inside a job, where Slurm's own commands then look for a cluster in the DNS."""
        for name in ("srun", "squeue", "sacct", "scontrol"):
            told = f'echo "$SLURM_JOB_ID $FEDSHIFT_PLAN" >> {self.folder}/plans\n' if name == "srun" else ""
            shim = self.folder / "bin" / name
            shim.write_text(
                f'#!/bin/sh\n{told}SLURM_CONF={self.folder}/slurm.conf exec {shutil.which(name, path=ADMIN)} "$@"\n'
            )
            shim.chmod(0o755)

    @staticmethod
    def wait(ready: object, seconds: float = 90) -> None:
        assert callable(ready)
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise TimeoutError(f"not ready within {seconds} s")
            time.sleep(0.1)


@contextlib.contextmanager
def running(cluster_in: Callable[[Path], Cluster]) -> Iterator[Cluster]:
    """A cluster in a folder of its own for the block; skips the test where Slurm is not installed."""
    require_slurm()
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        made = cluster_in(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    cluster = Cluster(Path(sys.argv[2]).absolute())
    if sys.argv[1] == "start":
        cluster.start()
        print("\n".join(f"export {key}={value}" for key, value in cluster.environment.items()))
    else:
        cluster.stop()
