"""Real servers, of MLflow and of PostgreSQL, to be killed and started again at the same place."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

SETTINGS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
USER = "postgres"  # as whom root starts it, which PostgreSQL refuses to serve


class Service:
    """A process that listens on a free port of 127.0.0.1 and writes `server.log` below `folder`. `with Service(..) as one:`

    Port and files stay the same over kills.
    """

    process: subprocess.Popen[bytes] | None = None

    def __init__(self, folder: Path) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self, patience: float = 600) -> None:
        """Return once it answers. Raises RuntimeError with its log's end where it ends, or has not answered after `patience` seconds."""
        self.launch()
        self.wait(patience)

    def launch(self) -> None:
        """Start without waiting."""
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, env={**os.environ, **SETTINGS},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait(self, patience: float = 600) -> None:
        """Return once it answers."""
        deadline = time.monotonic() + patience
        while not self.answers():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError((self.folder / "server.log").read_text()[-2000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9, its workers too; nothing where it does not run."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


class Server(Service):
    """`mlflow server`; store: the address of its database, left out `mlflow.db` below `folder`."""

    def __init__(self, folder: Path, store: str = "") -> None:
        super().__init__(folder)
        self.database = folder / "mlflow.db"
        self.store = store or f"sqlite:///{self.database}"
        self.uri = f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        at = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        return [sys.executable, "-m", "mlflow", "server", *at, "--backend-store-uri", self.store]

    def answers(self) -> bool:
        with suppress(OSError):
            return bool(urllib.request.urlopen(f"{self.uri}/health", timeout=2).read())
        return False


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian's are not on the path."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else [*Path("/usr/lib/postgresql").glob("*/bin")]
    return folders[-1] if folders else None


class Postgres(Service):
    """A PostgreSQL cluster in a temporary folder."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="postgres-")))
        self.uri, self.data = f"postgresql://mlflow@127.0.0.1:{self.port}/postgres", self.folder / "data"
        if not os.getuid():
            shutil.chown(self.folder, USER, USER)
        words = ["-D", str(self.data), "-U", "mlflow", "--auth=trust", "--encoding=UTF8", "--no-sync"]
        made = self._as_user("initdb", *words)
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def _as_user(self, program: str, *words: str) -> list[str]:
        drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if not os.getuid() else []
        return [*drop, f"{programs()}/{program}", *words]

    def command(self) -> list[str]:
        at = ["-D", str(self.data), "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)]
        return self._as_user("postgres", *at)

    def answers(self) -> bool:
        ready = [f"{programs()}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        shutil.rmtree(self.folder)
