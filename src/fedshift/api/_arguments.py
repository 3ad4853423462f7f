"""Convert arguments to plain values: numbers of NumPy and PyTorch, arrays, paths, ranges."""

import functools
import operator
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Address, address
from fedshift.storage.workspace import Workspace, project_folder

Root = str | os.PathLike[str] | None


def plain(value: Any, where: str = "argument") -> Any:
    """A value as in YAML: text, a number, a list, or a dictionary with text as keys.

    Raises FedshiftError for anything else, at the key or else at `where`.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(inner, where) for inner in value]
    if hasattr(value, "tolist"):  # of NumPy, PyTorch and pandas
        return plain(value.tolist(), where)
    if isinstance(value, str | bool | float | None):
        return value
    if hasattr(type(value), "__index__"):
        return operator.index(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise _unfit(where, value, "Give text, a number, or a list of these.")


def _unfit(where: str, value: object, cure: str) -> FedshiftError:
    return FedshiftError(where, f"cannot be of type {type(value).__name__}", cure)


def settings_of(settings: object) -> dict[str, Any]:
    """Dotted keys and plain values; empty for None."""
    if not isinstance(settings, Mapping | None):
        raise _unfit("settings", settings, 'Write {"local.lr": 0.1}.')
    return dict(plain(settings or {}))


def release(data: object, where: str) -> Address:
    """The release given by `data`: an address as on the command line, or the path of a folder of images."""
    if isinstance(data, os.PathLike):
        return address(f"folder:{os.fspath(data)}", where)
    if not isinstance(name := plain(data, where), str):
        raise _unfit(where, data, 'Give a name ("digits", "vlcs:domainbed") or the path of an image folder.')
    return address(name, where)


def say(text: str) -> None:
    """Print a text, with escapes for characters that the terminal cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def workspace(root: Root) -> Workspace:
    """The project at `root`; for None, the present folder or the first one above it that is a project."""
    folder = Path(root or "")
    if root is None and (folder := project_folder()) != Path():
        _tell(folder.resolve())
    registry.use(folder)
    return Workspace(folder)


@functools.cache
def _tell(folder: Path) -> None:
    """Print the project folder, once."""
    print(f"project folder: {folder}", file=sys.stderr)
