"""What several tests need and none changes, made once in a session, whichever of its workers asks first."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name` that `make` fills; it must bear being renamed. Tests copy it or link to it."""
    from fedshift.common.files import built_once

    own = factory.getbasetemp()  # of a worker: inside the session's
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    with built_once(folder) as part:
        if part is not None:
            make(part)
    return folder
