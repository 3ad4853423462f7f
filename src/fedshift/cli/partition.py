"""fedshift partition: give every sample to a client, and to train, validation or test."""

from __future__ import annotations

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
@click.option("--target", help="Held-out domain; none by default.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--fractions",
    default=".8,.1,.1",
    show_default=True,
    help="Train, validation and test share of every part.",
)
@click.pass_obj
def command(
    workspace: Workspace,
    name: str,
    release: str,
    px: int,
    scheme: str,
    given: tuple[str, ...],
    target: str | None,
    seed: int,
    fractions: str,
) -> None:
    """Write who holds which sample of data set NAME, with a picture of it."""
    from fedshift.data.partition import partition
    from fedshift.registry import get
    from fedshift.resolve import params
    from fedshift.spec import Division, closed

    plugin = get("partitions", scheme, "--scheme")
    made = params(plugin, dict(_pair(text) for text in given), "--param")
    chosen = {key: value for key, value in vars(made).items() if value != getattr(plugin.Params(), key)}
    division = {
        "data": {"dataset": name, "release": release, "target": target, "prepare": {"px": px}},
        "partition": {"scheme": scheme, "params": chosen, "fractions": fractions.split(",")},
        "seed": seed,
    }
    click.echo(partition(workspace, closed(Division, division, "fedshift partition")))


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not KEY=VALUE", param_hint="--param")
    return key, value
