"""DomainNet-10: ten classes of DomainNet in six domains, as in FDSE and as in FedBN."""

from dataclasses import replace

from fedshift.data.dataset import Release
from fedshift.data.datasets.domainnet import CITATION, CLASSES, CLEANED, DOMAINS, LICENCE, LISTS, PAGE
from fedshift.data.tree import ImageTree

TEN = (
    "bird", "feather", "headphones", "ice_cream", "teapot", "tiger", "whale", "windmill", "wine_glass", "zebra",
)  # fmt: skip


class DomainNet10(ImageTree):
    """A tree of DomainNet, whose other 335 classes are skipped.

    `original` is FDSE's version: the official lists of the cleaned version, train and test (22,426 images;
    its own figure, quickdraw and real inferred). These lists are not part of this project; give them by
    `--lists`. `fedbn` is FedBN's own 80/20 split of the version before cleaning, 18,278 train and 4,573 test
    images, in the project. 425 of its images are duplicates by DomainBed's list. It is not the official
    split.
    """

    name = "domainnet10"
    domains = DOMAINS
    classes = TEN
    every_class = False
    passed_over = LISTS.union(CLASSES).difference(TEN)
    releases = {
        "original": replace(
            CLEANED, counts=dict(zip(DOMAINS, (2_618, 3_070, 3_069, 5_000, 5_985, 2_684), strict=True))
        ),
        "fedbn": Release(
            source=f"{PAGE}: take the original version. Split: tfzhou/FedFA 57e9582, data/domainnet",
            licence=f"images: {LICENCE}; lists: Apache-2.0",
            citation=f"{CITATION}. Split: Li, Jiang, Zhang, Kamp, Dou: FedBN. ICLR 2021",
            by_hand=(PAGE,),
            lists="domainnet10_fedbn.csv.gz",
            listed_only=True,
            counts=dict(zip(DOMAINS, (2_629, 3_283, 3_091, 5_000, 6_081, 2_767), strict=True)),
        ),
    }
