"""docs/commands.md: usage, help and options of every command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from fedshift.cli import GROUPS, STEPS, VERBS, main


def commands() -> str:
    """The commands in the groups that `fedshift --help` has."""
    context = click.Context(main, info_name="fedshift")
    parts = ["| command | purpose |", "|---|---|"]
    others = {*VERBS} - {*STEPS}.union(*GROUPS.values())
    more = {name: text for name, text in VERBS.items() if name in others}
    groups = {**GROUPS, **({"More": more} if more else {}), "Steps of the workflow": STEPS}
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
    if isinstance(command, click.Group):
        yield ""
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield f"- `{context.command_path} {name}`: {inner.get_short_help_str(200)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _help(text: str) -> str:
    """Help as Markdown: paragraphs in one line each, what click leaves unwrapped as a block."""
    parts = []
    for part in inspect.cleandoc(text.partition("\f")[0]).split("\n\n"):
        lines = part.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            parts.append("```text\n" + inspect.cleandoc("\n".join(lines[1:])) + "\n```")
        else:
            parts.append(" ".join(line.strip() for line in lines))
    return "\n\n".join(parts)
