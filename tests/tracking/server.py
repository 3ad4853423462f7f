"""A real MLflow server on an SQLite file or another database, to be killed and started again at the same place."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

SETTINGS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


class Server:
    """`mlflow server` below `folder`: mlflow.db, server.log. Port and file stay the same over kills. `with Server(folder) as server:`

    store: the address of its database; left out, mlflow.db.
    """

    def __init__(self, folder: Path, store: str = "") -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.database = folder, folder / "mlflow.db"
        self.store = store or f"sqlite:///{self.database}"
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, patience: float = 600) -> None:
        """Return once it answers. Raises RuntimeError with its log's end where it ends, or has not answered after `patience` seconds."""
        self.launch()
        self.wait(patience)

    def launch(self) -> None:
        """Start without waiting."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", self.store]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **SETTINGS},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, patience: float = 600) -> None:
        """Return once it answers."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=2).read()
                return
            except OSError:
                time.sleep(0.1)
        log = (self.folder / "server.log").read_text()[-2000:]
        self.kill()
        raise RuntimeError(f"no MLflow server at {self.uri}: {log}")

    def kill(self) -> None:
        """kill -9, its workers too; nothing where it does not run."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
