"""`fedshift predict` and `fedshift export-model`: use the trained network of a run."""

import csv
import io
import sys
from pathlib import Path

import click
from tqdm import tqdm

from fedshift.cli._options import device_option, threads_option
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from fedshift.data.tree import SUFFIXES
from fedshift.experiments.task import KEPT
from fedshift.storage.workspace import Workspace

AT_ONCE = 64  # files that are decoded before they are predicted
FORMATS = ("torchscript", "onnx", "safetensors")  # of fedshift.deploy.export, which imports torch

of_option = click.option(
    "--of",
    default="unseen",
    show_default=True,
    metavar="unseen|CLIENT",
    help="Model for held-out domains, or that of a client (its number or domain).",
)
select_option = click.option(
    "--select",
    "selection",
    type=click.Choice(KEPT),
    default="last",
    show_default=True,
    help="Which saved round.",
)
member_option = click.option(
    "--member", type=click.IntRange(min=0), help="One of several models for held-out domains.  [default: all]"
)


@click.command("predict", epilog="Example: fedshift predict 3c3d32cc new_images/ --csv predictions.csv")
@click.argument("run", metavar="RUN")
@click.argument("images", type=click.Path(path_type=Path, exists=True))
@of_option
@select_option
@member_option
@click.option(
    "--csv", "file", type=click.Path(path_type=Path, dir_okay=False), help="Also write all probabilities."
)
@device_option
@threads_option
@click.pass_obj
def command(
    workspace: Workspace, run: str, images: Path, of: str, selection: str, member: int | None,
    file: Path | None, device: str, threads: int,
) -> None:  # fmt: skip
    """Predict the classes of new images with the trained network of a finished run.

    RUN is a run id, the beginning of one, or the folder of a run. IMAGES is a folder, searched with its
    subfolders, or a file. Prints the class of each image and its probability. If folders are named like
    classes, also prints the accuracy. Images that cannot be read are named at the end; the exit status is
    then 1.
    """
    import torch

    from fedshift.api import load_run
    from fedshift.deploy.predictor import predictor
    from fedshift.training.device import device as device_of
    from fedshift.training.device import require

    torch.set_num_threads(threads)
    require(torch_device := device_of(device))
    directory = load_run(run, root=workspace.root).directory
    model = predictor(directory, of, select=selection, member=member).to(torch_device)
    click.echo(f"{model.origin.method} on {model.origin.dataset}, model for {model.origin.of}", err=True)
    paths, rows, broken = files_of(images), list[tuple[Path, str, list[float]]](), list[FedshiftError]()
    with tqdm(total=len(paths), unit=" images", disable=None) as bar:
        for start in range(0, len(paths), AT_ONCE):
            chunk = paths[start : start + AT_ONCE]
            found, errors = model.predict_files(chunk)
            broken += errors
            for path, label, row in found:
                rows.append((path.relative_to(images) if images.is_dir() else path, label, row))
            bar.update(len(chunk))
    width = max((len(str(path)) for path, *_ in rows), default=0)
    for path, label, row in rows:
        click.echo(f"{path!s:{width}}  {label}  {max(row):.3f}")
    if file:
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["image", "label", "probability", *model.classes])
        for path, label, row in rows:
            name = str(path).encode("utf-8", "backslashreplace").decode()  # it may be no UTF-8
            table.writerow([name, label, *(f"{value:.6f}" for value in (max(row), *row))])
        write_text(file, text.getvalue())
    folders = [(label, Path(images, path).parent.name) for path, label, _ in rows]
    known = [(label, name) for label, name in folders if name in model.classes]
    if known:
        right = sum(label == name for label, name in known)
        share = f"{right} of {len(known)} images ({100 * right / len(known):.1f}%)"
        click.echo(f"In agreement with the name of their folder: {share}", err=True)
    for error in broken:
        click.echo(f"error: {error}", err=True)
    if broken:
        sys.exit(1)


def files_of(images: Path) -> list[Path]:
    """The image files of a folder and its subfolders, sorted; or the one file.

    Raises FedshiftError if there are none.
    """
    if not images.is_dir():
        return [images]
    found = [path for path in images.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
    if not found:
        raise FedshiftError(images, "contains no images", f"Files that count: {', '.join(sorted(SUFFIXES))}.")
    return sorted(found)


@click.command("export-model", epilog="Example: fedshift export-model 3c3d32cc --to onnx --out model/")
@click.argument("run", metavar="RUN")
@click.option(
    "--to",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Format, repeatable.  [default: torchscript]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder.  [default: results/models/RUN-OF, with -SELECT and -member-MEMBER if given]",
)
@of_option
@select_option
@member_option
@click.pass_obj
def export_model(
    workspace: Workspace, run: str, formats: tuple[str, ...], out: Path | None, of: str, selection: str,
    member: int | None,
) -> None:  # fmt: skip
    """Export the trained network of a finished run for use without fedshift.

    RUN is a run id, the beginning of one, or the folder of a run. The model contains its preprocessing: it
    takes uint8 RGB images and returns probabilities. Writes model.pt (TorchScript), model.onnx or
    model.safetensors, model.json and a model card (README.md) with classes, input size, licence of the images
    and accuracy by domain. Exported probabilities are checked against the network's own.
    """
    from fedshift.api import load_run
    from fedshift.deploy.export import export
    from fedshift.deploy.predictor import predictor

    directory = load_run(run, root=workspace.root).directory
    model = predictor(directory, of, select=selection, member=member)
    parts = [model.origin.digest, of, *([selection] if selection != "last" else [])]
    parts += [f"member-{member}"] if member is not None else []
    folder = out or workspace.results / "models" / "-".join(parts)
    for path in export(directory, model, folder, formats or ("torchscript",)):
        click.echo(path)
