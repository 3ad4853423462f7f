"""`fedshift pull`: get results that were trained elsewhere, so that nothing is trained again."""

import sys
from pathlib import Path

import click

from fedshift.cli.run import to_its_end
from fedshift.common.errors import FedshiftError
from fedshift.data.versions import obstacle
from fedshift.storage.workspace import Workspace

STAGES = ("data", "partitions", "train", "tables", "report")
SHOWN = ("tables", "report")


@click.command(epilog="Example: fedshift pull --remote lab")
@click.option("--remote", help="The DVC remote; default: the project's.")
@click.option("--force", is_flag=True, help="Replace results here that differ from those of the remote.")
@click.option(
    "--restore", "only_restore", is_flag=True, help="Pull nothing: only write the directories of pulled runs."
)
@click.pass_obj
def command(workspace: Workspace, remote: str | None, force: bool, only_restore: bool) -> None:
    """Get decoded images, partitions, metrics, tables and reports from the DVC remote, and mark them as up to
    date for Snakemake.

    Raw data sets are separate: `fedshift fetch`, or `dvc pull data/raw/NAME/RELEASE.dvc` if the remote has
    them.
    """
    from fedshift.analysis.evaluated import restore  # torch

    if only_restore:
        click.echo(
            f"{restore(workspace)} runs restored from results/packs and results/metrics, without weights. "
            "To train them here instead, delete results/packs and results/runs."
        )
        return
    _pull(workspace.root, remote, force)
    click.echo(
        f"{restore(workspace)} runs made elsewhere are known here from now on (without their weights)."
    )
    # A clone has neither times nor records that Snakemake could trust: --touch --forceall writes both. Where
    # experiments or code have changed since, that would certify old tables as new ones.
    if _run(workspace.root, "dvc", "status", "--quiet", *SHOWN):
        click.echo(
            "These results are older than the experiments or the analysis: Snakemake makes the tables "
            "again and trains what is missing."
        )
        return
    if _run(workspace.root, "snakemake", "--profile", "profiles/local", "--touch", "--forceall", "all"):
        raise FedshiftError(
            "snakemake --touch", "did not end well: see above", "Look at it with: snakemake -n"
        )


def _pull(root: Path, remote: str | None, force: bool) -> None:
    """Let DVC pull the STAGES. Raises FedshiftError with the cause if that fails."""
    if problem := obstacle(root):
        raise FedshiftError("fedshift pull", *problem)
    if not (root / "dvc.lock").is_file():
        cure = "Where they were made: dvc repro, git add dvc.lock, git commit, dvc push. Then git pull here."
        raise FedshiftError(root / "dvc.lock", "is not there: no results have been shared", cure)
    from dvc.config import ConfigError
    from dvc.exceptions import CheckoutError, DvcException
    from dvc.repo import Repo

    where = f"remote '{remote}'" if remote else "the DVC remote"
    try:
        with Repo(str(root)) as repo:
            targets = [f"{root / 'dvc.yaml'}:{stage}" for stage in STAGES]
            repo.pull(targets=targets, remote=remote, force=force)
    except ConfigError as error:
        raise FedshiftError(where, str(error), "dvc remote add --local --default NAME ADDRESS") from None
    except CheckoutError as error:
        what = f"does not have {', '.join(map(str, error.target_infos))}"
        cure = "Where they were made: dvc push. Another remote: dvc remote list, fedshift pull --remote NAME."
        raise FedshiftError(where, what, cure) from None
    except DvcException as error:
        first, *paths = str(error).splitlines()
        if "--force" not in first:
            raise FedshiftError("dvc pull", str(error), "Try: dvc status --cloud") from None
        what = f"would replace {len(paths)} files that only this folder has, the first {paths[0]}"
        cure = "Move what you want to keep to another folder, then: fedshift pull --force"
        raise FedshiftError("dvc pull", what, cure) from None


def _run(root: Path, module: str, *words: str) -> int:
    return to_its_end([sys.executable, "-m", module, *words], root)
