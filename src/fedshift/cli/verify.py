"""`fedshift verify`: check raw images against their manifest."""

import json
from collections.abc import Iterator
from typing import Any

import click

from fedshift.cli._options import complete, registered
from fedshift.data import verify
from fedshift.storage.workspace import Workspace

SHOWN = 5


@click.command("verify")
@click.argument("name", shell_complete=complete(registered("datasets")))
@click.option("--release", default="original", show_default=True)
@click.option("--write-manifest", is_flag=True, help="Accept the tree as it is: write its manifest first.")
@click.pass_obj
def command(workspace: Workspace, name: str, release: str, write_manifest: bool) -> None:
    """Check every raw image of data set NAME against its manifest. Lists missing, additional and corrupt
    files, and byte-identical images.
    """
    if write_manifest:
        click.echo(verify.write_manifest(workspace, name, release, accept=True))
    stamp = verify.verify(workspace, name, release)
    facts = json.loads(stamp.read_text(encoding="utf-8"))
    taken = ", taken as it is" if facts["accepted"] else ""
    click.echo(f"{facts['files']:,} files, {facts['bytes']:,} bytes: as in the manifest{taken}")
    for line in (*verify.count_lines(facts["counts"]), *_identical(facts["duplicates"])):
        click.echo(line)
    click.echo(f"{stamp}\npicture of the counts: {stamp.with_suffix('.png')}")


def _identical(duplicates: dict[str, Any]) -> Iterator[str]:
    """The lines on byte-identical files."""
    if not duplicates["groups"]:
        yield "no byte-identical files"
        return
    counts = f"{duplicates['groups']} groups, {duplicates['surplus']} surplus"
    yield f"byte-identical files: {counts} (`partition.groups: together` keeps those of a domain on one side)"
    if domains := duplicates["domains"]:
        yield (
            f"  {domains} of these groups in several domains: `groups: together` leaves out what the "
            "held-out domain is tested on, and lets copies in two source domains stay where they are"
        )
    if classes := duplicates["classes"]:
        yield f"  {classes} of these groups in several classes: labels that contradict each other"

    def alike(paths: list[str]) -> bool:
        return len({tuple(path.split("/")[:2]) for path in paths}) == 1

    files = sorted(duplicates["files"], key=alike)  # first those that are in several domains or classes
    yield from (f"  {' = '.join(paths)}" for paths in files[:SHOWN])
    if len(files) > SHOWN:
        yield f"  ... and {len(files) - SHOWN} more groups, in the stamp"
