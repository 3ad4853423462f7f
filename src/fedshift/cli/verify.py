"""fedshift verify: check raw images against their manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fedshift.cli._names import complete, registered

if TYPE_CHECKING:
    from fedshift.storage.workspace import Workspace

SHOWN = 5


@click.command("verify")
@click.argument("name", shell_complete=complete(registered("datasets")))
@click.option("--release", default="original", show_default=True)
@click.option(
    "--write-manifest", is_flag=True, help="Take the tree as it is for right: write its manifest first."
)
@click.option(
    "--near",
    type=click.IntRange(0, 16),
    metavar="BITS",
    is_flag=False,
    flag_value=4,
    help="Look for images that look alike, too: perceptual hashes that differ in BITS of 64 or fewer.  "
    "[BITS: 4]",
)
@click.pass_obj
def command(workspace: Workspace, name: str, release: str, write_manifest: bool, near: int | None) -> None:
    """Check every raw image of data set NAME; names what is missing, surplus or corrupt, and byte-identical
    files.
    """
    import json

    from fedshift.data import verify
    from fedshift.data.duplicates import name_warnings

    if write_manifest:
        click.echo(verify.write_manifest(workspace, name, release, accept=True))
    stamp = verify.verify(workspace, name, release)
    facts = json.loads(stamp.read_text(encoding="utf-8"))
    taken = ", taken as it is" if facts["accepted"] else ""
    click.echo(f"{facts['files']:,} files, {facts['bytes']:,} bytes: as in the manifest{taken}")
    click.echo("\n".join(verify.count_lines(facts["counts"])))
    click.echo("\n".join([_identical(facts["duplicates"]), *name_warnings(facts["counts"])]))
    if near is not None:
        _look_alike(workspace, name, release, near)
    click.echo(f"{stamp}\npicture of the counts: {stamp.with_suffix('.png')}")


def _look_alike(workspace: Workspace, name: str, release: str, bits: int) -> None:
    """Write the list of near duplicates beside the tree, and say how many there are."""
    import csv
    import functools
    import io

    from fedshift.common.files import write_text
    from fedshift.common.registry import get
    from fedshift.data.near import near_duplicates

    dataset, raw = get("datasets", name)(), workspace.raw(name, release)
    pairs = near_duplicates(dataset.paths(raw), functools.partial(dataset.image, raw), bits)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("path", "like", "bits"), *pairs])
    path = raw.with_name(f"{raw.name}.near.csv")
    write_text(path, text.getvalue())
    across = sum(one.split("/")[0] != other.split("/")[0] for one, other, _ in pairs)
    labels = sum(one.split("/")[1] != other.split("/")[1] for one, other, _ in pairs)
    click.echo(
        f"pairs that look alike ({bits} of 64 bits): {len(pairs)}, {across} of them across domains, "
        f"{labels} across classes: {path}"
    )


def _identical(duplicates: dict[str, Any]) -> str:
    """The lines on byte-identical files."""
    if not duplicates["groups"]:
        return "no byte-identical files"
    counts = f"{duplicates['groups']} groups, {duplicates['surplus']} surplus"
    lines = [
        f"byte-identical files: {counts} (`partition.groups: together` keeps those of a domain on one side)"
    ]
    if domains := duplicates["domains"]:
        lines.append(
            f"  {domains} of these groups in several domains: `groups: together` leaves out what the "
            f"held-out domain is tested on, "
            "and lets copies in two source domains stay where they are"
        )
    if classes := duplicates["classes"]:
        lines.append(f"  {classes} of these groups in several classes: labels that contradict each other")

    def alike(paths: list[str]) -> bool:
        return len({tuple(path.split("/")[:2]) for path in paths}) == 1

    files = sorted(duplicates["files"], key=alike)  # those first that lie in several domains or classes
    lines += [f"  {' = '.join(paths)}" for paths in files[:SHOWN]]
    if len(files) > SHOWN:
        lines.append(f"  ... and {len(files) - SHOWN} more groups, in the stamp")
    return "\n".join(lines)
