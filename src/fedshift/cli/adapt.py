"""`fedshift adapt`: adapt a finished run's model to its held-out domain without labels."""

from __future__ import annotations

import json
from pathlib import Path

import click
import yaml

from fedshift.errors import FedshiftError
from fedshift.workspace import Workspace


@click.command
@click.argument("run", metavar="DIGEST")
@click.argument("adaptation")
@click.option("--param", "chosen", multiple=True, metavar="KEY=VALUE", help="A parameter of the adaptation.")
@click.option(
    "--select",
    "selection",
    type=click.Choice(["best_first", "best_later", "last"]),
    default="best_first",
    show_default=True,
    help="Which of the kept weights.",
)
@click.option("--full-domain", is_flag=True, help="All images of the domain, not only its test split.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="CPU threads.")
@click.pass_obj
def command(
    workspace: Workspace,
    run: str,
    adaptation: str,
    chosen: tuple[str, ...],
    selection: str,
    full_domain: bool,
    device: str,
    threads: int,
) -> None:
    """Adapt the finished run DIGEST (a prefix will do) by ADAPTATION, and test it before and after on the same images.

    What has been done is not done again. Writes below results/adapted/ and prints the accuracies.
    """
    import torch

    from fedshift.adapt import Task, adapt

    torch.set_num_threads(threads)
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    task = Task(adaptation, _params(chosen), selection, "full_domain" if full_domain else "test_split")
    path = adapt(workspace, _run(workspace, run), task, torch.device(kind))
    told = json.loads(path.read_text())
    click.echo(
        f"{told['target']}, {told['n']} images: accuracy {told['before']['accuracy']:.4f} -> {told['after']['accuracy']:.4f}, "
        f"loss {told['before']['loss']:.4f} -> {told['after']['loss']:.4f}"
    )
    click.echo(path)


def _params(chosen: tuple[str, ...]) -> dict[str, object]:
    for one in chosen:
        if "=" not in one:
            raise FedshiftError(f"--param {one}", "has no '='", "Write --param KEY=VALUE.")
    return {key: yaml.safe_load(value) for key, _, value in (one.partition("=") for one in chosen)}


def _run(workspace: Workspace, digest: str) -> Path:
    runs = workspace.results / "runs"
    found = [path.parent for path in sorted(runs.glob("*/*/*/*/*/summary.json"))]
    matching = [path for path in found if path.name.startswith(digest)]
    if not matching:
        raise FedshiftError(runs, f"no finished run is called '{digest}'", "See: fedshift status --runs.")
    if len(matching) > 1:
        names = ", ".join(path.name for path in matching)
        raise FedshiftError(runs, f"'{digest}' begins several finished runs", f"One of: {names}.")
    return matching[0]
