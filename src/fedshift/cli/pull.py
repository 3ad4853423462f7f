"""`fedshift pull`: results that somebody else trained, taken over so that nothing is trained again."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import click

from fedshift.cli.plan import read_request
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace

STAGES = ("data", "partitions", "train", "tables", "report")
SHOWN = ("tables", "report")


@click.command
@click.option("--remote", help="The DVC remote; default: the project's.")
@click.pass_obj
def command(workspace: Workspace, remote: str | None) -> None:
    """Get decoded images, partitions, pack stamps, metrics, tables and reports from the DVC remote, and tell
    Snakemake that they are up to date.

    Raw data sets are not among them: `fedshift fetch`, or `dvc pull data/raw/<name>/<release>.dvc` where the
    remote has them.
    """
    from fedshift.analysis.collection.restore import restore
    from fedshift.analysis.tuning import choose_again

    if not importlib.util.find_spec("dvc"):
        raise FedshiftError("fedshift pull", "DVC is not installed", "pip install -e '.[dvc]'")
    options = ["--remote", remote] if remote else []
    if _run(workspace.root, "dvc", "pull", *options, *STAGES):
        raise FedshiftError(
            "dvc pull",
            "did not end well: see above",
            "Remotes: dvc remote list. What was never made (dvc repro) and pushed cannot be pulled.",
        )
    click.echo(
        f"{restore(workspace)} runs made elsewhere are known here from now on (without their weights)."
    )
    # A clone has neither times nor records that Snakemake could trust: --touch --forceall writes both. Where
    # experiments or
    # code have changed since these results were made, that would certify old tables as new ones.
    if _run(workspace.root, "dvc", "status", "--quiet", *SHOWN):
        click.echo(
            "These results are older than the experiments or the analysis: snakemake makes tables anew, and "
            "trains what no stamp names."
        )
        return
    for path in choose_again(workspace, read_request(workspace, ()).experiments):
        click.echo(f"{path}: chosen again from the search that was pulled.")
    if _run(workspace.root, "snakemake", "--profile", "profiles/local", "--touch", "--forceall", "all"):
        raise FedshiftError(
            "snakemake --touch", "did not end well: see above", "Look at it with: snakemake -n"
        )


def _run(root: Path, module: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *words], cwd=root, check=False).returncode
