"""Completion of names in a shell: `eval "$(_FEDSHIFT_COMPLETE=bash_source fedshift)"` (zsh, fish alike)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from fedshift.storage.workspace import Workspace, project_folder

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
Names = Callable[[Workspace], Iterable[str]]


def complete(names: Names) -> Completer:
    """For `shell_complete=`: those of `names` that begin as the word does."""

    def completed(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        root = context.find_root().params.get("root") or project_folder()
        return [name for name in names(Workspace(Path(root))) if name.startswith(begun)]

    return completed


def registered(kind: str) -> Names:
    """All names of a kind (`fedshift list`)."""

    def names(workspace: Workspace) -> Iterable[str]:
        from fedshift.common import registry

        return registry.names(kind)

    return names


def experiments(workspace: Workspace) -> list[str]:
    """Files below experiments/."""
    from fedshift.experiments.load import available

    return available(workspace)


def experiments_and_methods(workspace: Workspace) -> list[str]:
    return [*experiments(workspace), *registered("methods")(workspace)]


def domains(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The domains of the data set that `--data` names."""
    from fedshift.common.registry import get, names

    dataset = str(context.params.get("data") or "").partition(":")[0]
    known: tuple[str, ...] = get("datasets", dataset).domains if dataset in names("datasets") else ()
    return [name for name in known if name.startswith(begun)]


experiment_argument = click.argument("experiment", shell_complete=complete(experiments))
experiments_argument = click.argument(
    "names", metavar="[EXPERIMENT]...", nargs=-1, shell_complete=complete(experiments)
)
