"""A Slurm that keeps accounts: slurmdbd on the loopback interface, and a MariaDB that listens on a socket in its folder alone."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass

import pytest

from tests.slurm.cgroup import Memory, why_none
from tests.slurm.cluster import Cluster, free_ports, missing, user

PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb", "sacct", "sacctmgr")
ACCOUNT = "lab"

DBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
CommunicationParameters=NoInAddrAny
SlurmUser={user}
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={user}
StorageLoc=slurm
"""
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
TaskPlugin={task}
"""


def require_accounting() -> None:
    """Skip the test where slurmdbd or MariaDB is not installed. FEDSHIFT_REQUIRE_SLURM does not ask for them."""
    if absent := missing(PROGRAMS):
        packages = "slurmdbd slurm-wlm-mysql-plugin mariadb-server"
        pytest.skip(f"not installed: {', '.join(absent)} (Debian: {packages})")


@dataclass(frozen=True)
class Accounted(Cluster):
    """Every job belongs to the account `lab`. Where this user may, a cgroup holds jobs to their memory."""

    @property
    def memory(self) -> Memory | None:
        return None if why_none() else Memory(self.folder / "cgroup")

    def accounting(self) -> str:
        (port,) = free_ports(1)
        known = {"folder": self.folder, "port": port, "user": user()}
        (self.folder / "slurmdbd.conf").write_text(DBD.format(**known))
        (self.folder / "slurmdbd.conf").chmod(0o600)
        if self.memory:
            (self.folder / "cgroup.conf").write_text(self.memory.configuration)
        return ACCOUNTING.format(**known, task="task/cgroup" if self.memory else "task/none")

    def mounts(self) -> list[str]:
        return [self.memory.mount()] if self.memory else []

    def before_controller(self) -> None:
        """The database, and in it the cluster, an account, and this user as its member."""
        self.start_database()
        self.start_dbd()
        for what in (["cluster", "fedshift"], ["account", ACCOUNT], ["user", user(), f"Account={ACCOUNT}"]):
            self.call("sacctmgr", "--immediate", "--quiet", "add", *what)

    def start_database(self) -> None:
        data, socket = self.folder / "mariadb", self.folder / "mariadb.socket"
        install = ["mariadb-install-db", "--no-defaults", f"--user={user()}", f"--datadir={data}"]
        self.call(*install, "--skip-test-db", "--auth-root-authentication-method=socket")
        server = ["mariadbd", "--no-defaults", f"--user={user()}", f"--datadir={data}", f"--socket={socket}"]
        server += ["--skip-networking", f"--pid-file={self.folder}/mariadbd.pid"]
        log = self.folder / "mariadbd.log"
        self.call("sh", "-c", f"{shlex.join(server)} </dev/null >{log} 2>&1 &")  # no daemon by itself
        client = ["mariadb", "--no-defaults", f"--socket={socket}", "--execute=create database slurm"]
        self.wait(lambda: subprocess.run(client, capture_output=True, check=False).returncode == 0)

    def start_dbd(self) -> None:
        self.call("env", f"MYSQL_UNIX_PORT={self.folder}/mariadb.socket", "slurmdbd")
        self.wait(lambda: "Cluster" in self.call("sacctmgr", "list", "cluster", check=False))

    def stop(self) -> None:
        super().stop()
        self.stop_daemon("slurmdbd")
        self.stop_daemon("mariadbd")
        if self.memory:
            self.memory.remove()
