"""The trained network of a finished run as an ordinary PyTorch module, and its predictions on new images."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from fedshift.common.errors import FedshiftError, unknown
from fedshift.data.augment import NORMALISE, constant, resize_weights
from fedshift.data.dataset import Address
from fedshift.data.load import RunData
from fedshift.data.tree import eight_bit, read_image, upright
from fedshift.evaluations.base import Kept
from fedshift.federation.samples import ClientData
from fedshift.models.base import Model
from fedshift.spec import RunSpec, parse
from fedshift.storage.rundir import RunDirectory
from fedshift.training import weights
from fedshift.training.assemble import federation_of

CPU = torch.device("cpu")
BATCH = 64  # images that pass through the network together
Of = Literal["unseen"] | int | str
Images = Path | Image.Image | Sequence[Any] | NDArray[Any] | Tensor


@dataclass(frozen=True)
class Origin:
    """The run and the model that a predictor is from.

    `digest`, `method`, `dataset`: of the run.
    `round`: after which its weights were saved.
    `of`: "unseen", or the client and its domains.
    `model`, `stage`, `client`: as in records (fedshift.federation.records).
    `member`: the one of several models for a held-out domain; None for all.
    """

    digest: str
    method: str
    dataset: str
    round: int
    of: str
    model: str
    stage: str
    client: int
    member: int | None = None


class Predictor(nn.Module):
    """A trained network with its preprocessing: uint8 RGB images [B, 3, px, px] to probabilities [B, C].

    It is in eval mode, in fp32, whatever the precision of the training. With several networks (a method that
    uses every client's model on a new domain), it returns the mean of their probabilities.

    `networks`: one for each member, which returns features and logits.
    `px`: side of the input in pixels.
    `input_px`: side of the networks' input, to which images are resized inside.
    `normalise`: a key of fedshift.data.augment.NORMALISE.
    `classes`: their names.
    `origin`: the run and the model.
    """

    mean: Tensor
    deviation: Tensor
    resize: Tensor

    def __init__(
        self, networks: Sequence[Model], px: int, input_px: int, normalise: str, classes: Sequence[str],
        origin: Origin,
    ) -> None:  # fmt: skip
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.px, self.input_px, self.classes, self.origin = px, input_px, list(classes), origin
        self.normalise = normalise
        mean, deviation = (torch.tensor(values)[:, None, None] * 255 for values in NORMALISE[normalise])
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("deviation", deviation, persistent=False)
        if px != input_px:
            start, length = constant((0.0,), CPU), constant((float(px),), CPU)
            matrix = resize_weights(start, length, px, input_px)[0]
            self.register_buffer("resize", matrix, persistent=False)
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Probabilities [B, C] of images [B, 3, px, px], uint8 or the same values as floats."""
        x = images.float()
        if self.px != self.input_px:
            x = torch.matmul(self.resize.t(), torch.matmul(x, self.resize))
        x = (x - self.mean) / self.deviation
        logits = [network(x).logits.float() for network in self.networks]
        return torch.stack([member.softmax(1) for member in logits]).mean(0)

    def predict(self, images: Images, *, tick: Callable[[int], object] = lambda count: None) -> "Predictions":
        """Labels and probabilities of images of any size, which are resized to squares as in training.

        `images`: a path or PIL image, or a sequence of paths, PIL images, arrays or tensors. A single array
            or tensor is [n, h, w, 3], [n, h, w] or (tensors) [n, 3, h, w]. Values are uint8, or floats in [0,
            1].
        `tick`: called with the number of images after each batch.

        Raises FedshiftError for an item that is not an image, with its index or path, and for an array or
        tensor that may be a single image.
        """
        batches = []
        images = [images] if isinstance(images, str | Path | Image.Image) else images
        shape = tuple(getattr(images, "shape", ()))
        if len(shape) == 3 and (shape[2] == 3 or (isinstance(images, Tensor) and shape[0] == 3)):
            raise FedshiftError("images", f"has the shape {shape} of one image", "Give a list: [image].")
        device = self.mean.device
        for start in range(0, len(images), BATCH):
            chunk = images[start : start + BATCH]
            square = np.stack([self._square(image, start + place) for place, image in enumerate(chunk)])
            with torch.inference_mode():
                batches.append(self(torch.from_numpy(square).permute(0, 3, 1, 2).to(device)).cpu().numpy())
            tick(len(chunk))
        probabilities = np.concatenate(batches) if batches else np.empty((0, len(self.classes)), np.float32)
        return Predictions(self.classes, probabilities)

    def predict_files(
        self, paths: Sequence[Path]
    ) -> tuple[list[tuple[Path, str, list[float]]], list[FedshiftError]]:
        """Path, label and probabilities of each file that can be read, and an error for each other file."""
        images, errors = dict[Path, NDArray[np.uint8]](), list[FedshiftError]()
        for path in paths:
            try:
                images[path] = self._square(path, 0)
            except FedshiftError as error:
                errors.append(error)
        found = self.predict([*images.values()])
        return [*zip(images, found.labels, found.probabilities.tolist(), strict=True)], errors

    def _square(self, image: Any, place: int) -> NDArray[np.uint8]:
        """One image decoded as the run's own images: uint8 [px, px, 3]."""
        size = (self.px, self.px)
        return np.asarray(picture(image, place).resize(size, Image.Resampling.BILINEAR, reducing_gap=None))


@dataclass(frozen=True)
class Predictions:
    """The predictions on n images.

    `classes`: their names [C].
    `probabilities`: float32 [n, C]; each row sums to 1.
    """

    classes: list[str]
    probabilities: NDArray[np.float32]

    @property
    def labels(self) -> list[str]:
        """The most probable class of each image."""
        return [self.classes[place] for place in self.probabilities.argmax(1)]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """The probability of the most probable class of each image, [n]."""
        return self.probabilities.max(1, initial=0.0)

    def __len__(self) -> int:
        return len(self.probabilities)


def picture(image: Any, place: int) -> Image.Image:
    """An image in RGB, upright. Raises FedshiftError, with its path or its `place`, for other things.

    `image`: a path, a PIL image, an array or a tensor.
    """
    cure = "Replace it or leave it out."
    if isinstance(image, str | Path):
        try:
            return read_image(Path(image))
        except Exception as error:  # a decoder may raise anything when a file is damaged
            raise FedshiftError(image, f"cannot be read as an image: {error}", cure) from error
    if not isinstance(image, Image.Image):
        return Image.fromarray(rgb(image, place))
    try:
        return upright(image)
    except ValueError as error:
        raise FedshiftError(f"image {place}", str(error), cure) from None


def rgb(image: Any, place: int) -> NDArray[np.uint8]:
    """An array or tensor of one image as uint8 [h, w, 3]."""
    tensor = isinstance(image, Tensor)
    array = image.detach().cpu().numpy() if tensor else np.asarray(image)
    if array.ndim == 3 and array.shape[0] in (1, 3) and (tensor or array.shape[2] not in (1, 3)):
        array = array.transpose(1, 2, 0)
    if array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1):
        array = np.repeat(array.reshape(*array.shape[:2], 1), 3, axis=2)
    where = f"image {place}"
    if array.ndim != 3 or array.shape[2] != 3 or not array.size:
        shape = tuple(array.shape)
        raise FedshiftError(where, f"has the shape {shape}", "Give [h, w], [h, w, 3] or a tensor [3, h, w].")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype == np.uint16:
        return eight_bit(array)
    if array.dtype.kind != "f" or not (array.min() >= 0 and array.max() <= 1):  # nan is refused, too
        what = f"has values of type {array.dtype} from {array.min():g} to {array.max():g}"
        raise FedshiftError(where, what, "Give uint8 (0 to 255), uint16, or floats from 0 to 1.")
    return np.ascontiguousarray((array * 255).round().astype(np.uint8))


def predictor(
    run: RunDirectory, of: Of = "unseen", *, select: str = "last", member: int | None = None
) -> Predictor:
    """The trained network of a finished run with its preprocessing, from the run's directory alone.

    The run's images and partition are not needed.

    `of`: "unseen", the model that the method gives to a domain without clients. Or a client, by its number
        or, if it is the only one, by its domain. This is the model that tables test it with. If it was not
        saved (a client's own right after training, evaluation.keep: clients), it is the client's model after
        the last aggregation.
    `select`: weights of the last round, or of the best by validation: "last", "best_first", "best_later".
    `member`: only this one of several models for a held-out domain.

    Raises FedshiftError for a run without weights, an unknown client and an unknown member.
    """
    summary = run.summary()
    if summary is None:
        raise FedshiftError(run.path, "is not finished", "Train it first; finished ones: fedshift list runs.")
    spec = parse(summary["spec"], str(run.summary_file))
    federation = federation_of(spec, _pictured(spec, summary), CPU)
    restored = weights.restore(federation, run, summary, select)
    kept = list(weights.models(federation, restored, [torch.zeros(1, dtype=torch.int64)]))
    wanted, client, name = _chosen(kept, federation.evaluator.reported, of, summary, run)
    if member is not None:
        if not 0 <= member < len(wanted):
            raise unknown(run.path, "member", str(member), map(str, range(len(wanted))))
        wanted = [wanted[member]]
    networks = []
    for one in wanted:
        network = federation.build()
        tensors = dict(network.named_parameters()) | dict(network.named_buffers())
        with torch.no_grad():
            for entry in federation.layout.entries:
                tensors[entry.name].copy_(entry.view(one.row))
        networks.append(network)
    seen = spec.data
    origin = Origin(
        digest=summary["digest"], method=summary["method"], dataset=str(Address(seen.dataset, seen.release)),
        round=weights.round_of(summary, select), of=name, model=wanted[0].model, stage=wanted[0].stage,
        client=client, member=None if member is None else wanted[0].member,
    )  # fmt: skip
    return Predictor(networks, seen.prepare.px, seen.input_px, seen.normalise, summary["classes"], origin)


def _chosen(
    kept: Iterable[Kept], reported: tuple[str, str], of: Of, summary: dict[str, Any], run: RunDirectory
) -> tuple[list[Kept], int, str]:
    """The models for `of`, the client in the records that test them, and a description of them."""
    if of == "unseen":
        found = [one for one in kept if any(client < 0 for client, *_ in one.sets)]
        return found, -1, "unseen"
    clients = {str(one["client"]): one for one in summary["clients"]}
    by_domain: dict[str, list[str]] = {}
    for number, facts in clients.items():
        for domain in facts["domains"]:
            by_domain.setdefault(domain, []).append(number)
    numbers = [str(of)] if str(of) in clients else by_domain.get(str(of), [])
    if len(numbers) > 1:
        what = f"{len(numbers)} clients hold images of '{of}'"
        raise FedshiftError(run.path, what, f"Give one by its number: {', '.join(numbers[:20])}.")
    if not numbers:
        raise unknown(run.path, "client", str(of), ["unseen", *clients, *by_domain])
    (number,) = numbers
    fitting = [one for one in kept if any(client == int(number) for client, *_ in one.sets)]
    best = min(fitting, key=lambda one: ((one.model, one.stage) != reported, one.stage != "post_agg"))
    return [best], int(number), f"client {number} ({', '.join(clients[number]['domains'])})"


def _pictured(spec: RunSpec, summary: dict[str, Any]) -> RunData:
    """Data of the run's shape without its images, for restoring its weights."""
    end, clients = 0, []
    for facts in summary["clients"]:
        parts = []
        for split in ("train", "val", "test"):
            count = max(1, facts[split])  # with 0 images, a client's models would not be listed
            parts.append(torch.arange(end, end + count))
            end += count
        train, val, test = parts
        clients.append(ClientData(train, val, test, tuple(facts["domains"])))
    px = spec.data.prepare.px
    images = torch.zeros(1, px, px, 3, dtype=torch.uint8).expand(end, px, px, 3)
    nothing: list[Tensor] = []
    labels = torch.zeros(end, dtype=torch.int64)
    return RunData(images, labels, clients, nothing, nothing, summary["classes"], {}, {})
