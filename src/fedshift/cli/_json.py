"""Shared by the verbs whose answer a script may read."""

from __future__ import annotations

import json

import click

json_option = click.option("--json", "as_json", is_flag=True, help="As JSON, for scripts.")


def echo_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))
