"""Images for evaluations: a sample of each set, the same for all methods; and their features."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.errors import FedshiftError
from fedshift.evaluations.base import Kept, Stage, Trained
from fedshift.federation.batches import generator
from fedshift.spec.block import MOST

Count = Annotated[int, Field(ge=1, le=MOST)]  # of images
ClientSplit = Literal["val", "test"]  # a client's splits that models are tested on


@dataclass(frozen=True)
class OfClients:
    """`images`: maximum number of images from a client's split.
    `seed`: random seed of the sample of images.
    `splits`: "val", "test"; none: test, or validation for a client without test images.
    `stage`: stage of the client's model (fedshift.evaluations.base.Trained.of_clients).
    """

    images: Count = 100
    seed: int = 0
    splits: tuple[ClientSplit, ...] = ()
    stage: Stage = "reported"


def drawn(index: Tensor, images: int, seed: int, client: int, split: str) -> Tensor:
    """A sample of at most `images` of the positions `index` [n] of a client's split, in ascending order.

    It is the same for all models and methods that test the same images.
    """
    order = torch.randperm(len(index), generator=generator(seed, "features", client, split))
    return index[order[:images].sort().values.to(index.device)]


def of_client(kept: Kept, client: int, hp: OfClients) -> Tensor:
    """Positions of a client's images, each once."""
    own = {split: index for holder, split, index in kept.sets if holder == client}
    splits = hp.splits or (["test"] if len(own.get("test", ())) else ["val"])
    chosen = {split: index for split, index in own.items() if split in splits}
    parts = [drawn(index, hp.images, hp.seed, client, split) for split, index in chosen.items()]
    return torch.cat(parts).unique() if parts else torch.empty(0, dtype=torch.int64)


def unit(features: Tensor) -> Tensor:
    """Features [n, F], each divided by its length; features of length 0 are unchanged."""
    return F.normalize(features.double(), dim=1)


class Pool(NamedTuple):
    """All clients' images, by their own models.

    `features`: [n, F], of length 1.
    `client`, `sample`, `label`: [n].
    """

    features: Tensor
    client: Tensor
    sample: Tensor
    label: Tensor
    domain: list[str]


def pooled(run: Trained, models: dict[int, Kept], hp: OfClients) -> Pool:
    """The features of every client's images. Raises FedshiftError where no client has an image."""
    domains, features, clients, samples, labels = run.domains(), [], [], [], []
    for client, kept in models.items():
        index = of_client(kept, client, hp)
        for out, y in run.outputs(kept.row, index):
            features.append(out.feature.cpu())
            labels.append(y.cpu())
        clients.append(torch.full((len(index),), client))
        samples.append(index.cpu())
    if not sum(map(len, samples)):
        what = f"no client has an image in {', '.join(hp.splits) or 'test or validation'}"
        raise FedshiftError("evaluation", what, "Name other splits: splits=[val].")
    sample = torch.cat(samples)
    named = [domains[place] for place in sample.tolist()]
    return Pool(unit(torch.cat(features)), torch.cat(clients), sample, torch.cat(labels), named)
