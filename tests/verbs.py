"""The verbs, called as a user would."""

from pathlib import Path

from click.testing import CliRunner, Result

from fedshift.cli import main


def fedshift(root: Path, *arguments: str) -> Result:
    """`fedshift --root ROOT ARGUMENTS`."""
    return CliRunner().invoke(main, ["--root", str(root), *arguments])


def done(result: Result) -> str:
    """The output of a call that must succeed."""
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, *parts: str) -> None:
    """Exit status 2, no traceback, and every part in the message."""
    assert result.exit_code == 2, result.output
    for part in parts:
        assert part in result.output, f"{part!r} is not in: {result.output}"
    assert "Traceback" not in result.output
