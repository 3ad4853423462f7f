"""PACS: seven classes as art painting, cartoon, photo and sketch (Li et al., ICCV 2017)."""

from __future__ import annotations

from typing import ClassVar

from fedshift.data.dataset import Release
from fedshift.data.tree import ImageTree


class PACS(ImageTree):
    """9,991 images of 227 x 227: art_painting 2,048, cartoon 2,344, photo 1,670, sketch 3,929."""

    name = "pacs"
    domains = ("art_painting", "cartoon", "photo", "sketch")
    classes = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    releases: ClassVar[dict[str, Release]] = {
        "original": Release(
            source="github.com/MachineLearning2020/Homework3-PACS, folder PACS, commit d586a6c (the files that FDSE downloads)",
            licence="none stated: for research; do not redistribute",
            citation="Li, Yang, Song, Hospedales: Deeper, Broader and Artier Domain Generalization. ICCV 2017",
            manifest="pacs.json",
            url="https://github.com/MachineLearning2020/Homework3-PACS/archive/d586a6cf3db84896fb6cc465c7bf51bdaf6d65d8.zip",
            subfolder="*/PACS",
        )
    }
