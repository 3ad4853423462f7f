"""MLflow's store: its address, a client that answers within seconds, and fixes for a broken one."""

import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from mlflow import MlflowClient
from mlflow.store.db.db_types import DATABASE_ENGINES
from sqlalchemy import create_engine, text

from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace

for name in ("alembic", "mlflow"):  # `trouble` reports errors in one line
    logging.getLogger(name).setLevel(logging.CRITICAL)

LOCKED = 15  # seconds that an SQLite file may be locked by another program, or a database be silent
WAITS = {"sqlite": "timeout", "postgresql": "connect_timeout"}  # what drivers call that
AGAIN = "Nothing is lost: once that is over, `fedshift track` sends what is missing."
CURES = {  # by the message of a database
    "locked": f"Another program writes to it. {AGAIN}",
    "not a database|malformed": "Move it away: `fedshift track` makes a new one and sends every run again.",
    "schema|revision": "It is of another version of MLflow. Copy it, then: mlflow db upgrade {uri}; "
    "or move it away: `fedshift track` makes a new one and sends every run again.",
    "readonly|unable to open|denied": f"Change the rights, or set MLFLOW_TRACKING_URI. {AGAIN}",
    r"\bfull\b|No space": f"Make room on that disk. {AGAIN}",
}


def address(workspace: Workspace) -> str:
    """Address of the store: MLFLOW_TRACKING_URI, else the SQLite file mlflow.db in the project folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{workspace.root.resolve() / 'mlflow.db'}"


def shown_address(uri: str) -> str:
    """`uri` without its password."""
    return re.sub(r"//[^/@]*@", "//...@", uri)


def client_of(uri: str) -> MlflowClient:
    """A client of a writable store.

    Raises the error of its database if that is locked, damaged or unreachable; MLflow itself would retry for
    minutes.
    """
    kind = uri.partition(":")[0].partition("+")[0]
    if kind not in DATABASE_ENGINES:
        return MlflowClient(uri)
    if kind in WAITS and "?" not in uri:
        uri = f"{uri}?{WAITS[kind]}={LOCKED}"
    if kind == "sqlite":  # no connection outlives its use: it would write to a removed file
        os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    engine = create_engine(uri)
    try:
        with engine.connect() as connection:
            connection.execute(text("BEGIN IMMEDIATE" if kind == "sqlite" else "SELECT 1"))
    finally:
        engine.dispose()
    return MlflowClient(uri)


def every(search: Callable[[str | None], Any]) -> Iterator[Any]:
    """All results of a search, page by page."""
    token = None
    while True:
        found = search(token)
        yield from found
        if not (token := found.token):
            return


def trouble(uri: str, error: Exception, run: str = "") -> FedshiftError:
    """The problem of a store, with a fix, as an error.

    The text is the first sentence of its database or of the system if these are the cause. run: directory of
    the run that was being sent.
    """
    causes: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        causes.append(link)
        link = link.__cause__ or link.__context__
    database = [cause for each in causes if isinstance(cause := getattr(each, "orig", None), Exception)]
    system: list[Exception] = [cause for cause in causes if isinstance(cause, OSError)]
    said = str((database or system[::-1] or [error])[0]).strip() or type(error).__name__
    what = shown_address(said.splitlines()[0].partition(". ")[0])
    cures = (cure for words, cure in CURES.items() if re.search(words, what, re.IGNORECASE))
    cure = next(cures, AGAIN).format(uri=shown_address(uri))
    return FedshiftError(shown_address(uri), f"{run}: {what}" if run else what, cure, retry=True)
