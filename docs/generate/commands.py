"""docs/commands.md: usage, help and options of every command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from fedshift.cli import GROUPS, MORE, STEPS, main


def commands() -> str:
    """The commands in the groups that `fedshift --help` has."""
    context = click.Context(main, info_name="fedshift")
    parts = ["| command | purpose |", "|---|---|"]
    groups = {**GROUPS, "More": MORE, "Steps of the workflow": STEPS}
    for names in groups.values():
        parts += [f"| [`{name}`](#fedshift-{name}) | {text} |" for name, text in names.items()]
    for title, names in groups.items():
        parts += ["", f"## {title}"]
        for name in names:
            command = main.get_command(context, name)
            assert command is not None
            parts += ["", *_section(command, click.Context(command, info_name=name, parent=context))]
    return "\n".join(parts)


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### fedshift {context.info_name}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield _help(command.help or "")
    records = [record for one in command.params if (record := one.get_help_record(context)) and record[1]]
    if records:
        yield "\n| option | meaning |\n|---|---|"
    for names, text in records:
        yield f"| `{_cell(names)}` | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _help(text: str) -> str:
    """Help as Markdown: paragraphs in one line each."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))
