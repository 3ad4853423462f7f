"""A PostgreSQL cluster of its own, to be killed and started again at the same place."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType

USER = "postgres"  # as whom root starts it, which PostgreSQL refuses to serve


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian's are not on the path."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else [*Path("/usr/lib/postgresql").glob("*/bin")]
    return folders[-1] if folders else None


class Postgres:
    """A cluster in a temporary folder, on a free port of 127.0.0.1. `with Postgres() as cluster:`"""

    def __init__(self) -> None:
        found = programs()
        assert found is not None
        self.programs = found
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"postgresql://mlflow@127.0.0.1:{self.port}/postgres"
        self.process: subprocess.Popen[bytes] | None = None

    def _as_user(self, program: str, *words: str) -> list[str]:
        drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if not os.getuid() else []
        return [*drop, str(self.programs / program), *words]

    def start(self) -> None:
        """Return once it answers: what a kill left behind may stand in the way for a moment. Raises RuntimeError with its log's end
        where it does not."""
        ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 120
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            if self.process is None or self.process.poll() is not None:
                self.launch()
            time.sleep(0.2)

    def launch(self) -> None:
        """Start without waiting."""
        at = ["-D", str(self.data), "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self._as_user("postgres", *at), cwd=self.folder, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """kill -9 of the server; its children then end by themselves."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self) -> Postgres:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.data = self.folder / "data"
        if not os.getuid():
            shutil.chown(self.folder, USER, USER)
        words = ["-D", str(self.data), "-U", "mlflow", "--auth=trust", "--encoding=UTF8", "--no-sync"]
        subprocess.run(
            self._as_user("initdb", *words), check=True, stdout=subprocess.DEVNULL, cwd=self.folder
        )
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder)
