"""fedshift partition: give every sample to a client, and to train, validation or test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fedshift.workspace import Workspace


@click.command("partition")
@click.argument("name")
@click.option("--release", default="original", show_default=True)
@click.option("--px", default=32, show_default=True, help="Which prepared images to take the index of.")
@click.option("--scheme", default="domain_per_client", show_default=True)
@click.option(
    "--param", "given", multiple=True, metavar="KEY=VALUE", help="A parameter of the scheme; may be repeated."
)
@click.option(
    "--target",
    multiple=True,
    help="Held-out domain; none by default. Given twice: the one to report, the one to choose rounds on.",
)
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--fractions",
    default=".8,.1,.1",
    show_default=True,
    help="Train, validation and test share of every part.",
)
@click.option("--split", type=click.Choice(["random", "official"]), default="random", show_default=True)
@click.option(
    "--groups",
    type=click.Choice(["apart", "together"]),
    default="apart",
    show_default=True,
    help="Whether duplicates stay on one side of a split.",
)
@click.option(
    "--target-split", type=click.Choice(["all", "test", "client"]), default="all", show_default=True
)
@click.option(
    "--modify",
    "changes",
    multiple=True,
    metavar="NAME=JSON",
    help="A change made afterwards, with its parameters: 'few_shot_target={\"each\": 5}'; may be repeated.",
)
@click.pass_obj
def command(
    workspace: Workspace,
    name: str,
    release: str,
    px: int,
    scheme: str,
    given: tuple[str, ...],
    target: tuple[str, ...],
    seed: int,
    fractions: str,
    split: str,
    groups: str,
    target_split: str,
    changes: tuple[str, ...],
) -> None:
    """Write who holds which sample of data set NAME, with a picture of it."""
    from fedshift.data.partition import partition, twins
    from fedshift.errors import FedshiftError
    from fedshift.identity import prepared_name
    from fedshift.registry import get
    from fedshift.spec import Division, closed

    plugin = get("partitions", scheme, "--scheme")
    chosen = _chosen(plugin, dict(_pair(text, "--param") for text in given), "--param")
    modify = {}
    for name_of, value in (_pair(text, "--modify") for text in changes):
        modify[name_of] = _chosen(get("modifiers", name_of, "--modify"), _json(value), f"--modify {name_of}")
    held_out = target if len(target) > 1 else next(iter(target), None)
    division = {
        "data": {"dataset": name, "release": release, "target": held_out, "prepare": {"px": px}},
        "partition": {
            "scheme": scheme,
            "params": chosen,
            "fractions": fractions.split(","),
            "split": split,
            "groups": groups,
            "target_split": target_split,
            "modify": modify,
        },
        "seed": seed,
    }
    declared = closed(Division, division, "fedshift partition")
    if not (folder := workspace.prepared(prepared_name(declared.data))).exists():
        cure = f"Run: fedshift prepare {name} --release {release} --px {px}"
        raise FedshiftError(folder, "no such folder", cure)
    path = partition(workspace, declared)
    if count := twins(path):
        left = (
            "left out (--groups together)"
            if groups == "together"
            else "kept; --groups together leaves them out"
        )
        click.echo(
            f"byte-identical to tested images of the held-out domain: {count} images, {left}", err=True
        )
    click.echo(path)


def _chosen(plugin: Any, given: dict[str, Any], where: str) -> dict[str, Any]:
    """What differs from the plug-in's defaults."""
    from fedshift.resolve import params

    made = params(plugin, given, where)
    return {key: value for key, value in vars(made).items() if value != getattr(plugin.Params(), key)}


def _pair(text: str, option: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not KEY=VALUE", param_hint=option)
    return key, value


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"'{text}' is not JSON: {error}", param_hint="--modify") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"'{text}' is not a JSON object", param_hint="--modify")
    return value
