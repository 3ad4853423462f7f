"""PACS: seven classes as art painting, cartoon, photo and sketch (Li et al., ICCV 2017)."""

from fedshift.data.dataset import Archive, Release
from fedshift.data.tree import ImageTree

REPOSITORY = "github.com/MachineLearning2020/Homework3-PACS"


class PACS(ImageTree):
    """9,991 images of 227 x 227: art_painting 2,048, cartoon 2,344, photo 1,670, sketch 3,929.

    Official split: the kfold lists, train 8,977 and crossval 1,014; their `test` is the whole domain.
    """

    name = "pacs"
    version = 2  # 2: the index holds the official split
    domains = ("art_painting", "cartoon", "photo", "sketch")
    classes = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    levels = ("images", "train", "crossval")
    passed_over = frozenset({"splits"})
    releases = {
        "original": Release(
            source=f"{REPOSITORY}, folder PACS, commit d586a6c (the files that FDSE downloads)",
            licence="none stated: for research; do not redistribute. Lists: BSD-2 (DeLightCMU/RSC)",
            citation="Li, Yang, Song, Hospedales: Deeper, Broader and Artier Domain Generalization. ICCV "
            "2017",
            manifest="pacs.json",
            archives=(
                Archive(
                    f"https://{REPOSITORY}/archive/d586a6cf3db84896fb6cc465c7bf51bdaf6d65d8.zip",
                    "WwZzz/FDSE_CVPR25 names the repository; the form of the address is GitHub's",
                ),
            ),
            by_hand=(
                "https://drive.google.com/open?id=1m4X4fROCCXMO0lRLrr6Zz9Vb3974NWhE "
                "(KaiyangZhou/Dassl.pytorch, DATASETS.md: pacs/images)",
                "https://drive.google.com/uc?id=1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd "
                "(facebookresearch/DomainBed, domainbed/scripts/download.py: kfold)",
            ),
            lists="pacs_kfold.csv.gz",
        )
    }
