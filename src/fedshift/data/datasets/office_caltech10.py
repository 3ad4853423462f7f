"""Office-Caltech10: ten object classes from Caltech, Amazon, DSLR and webcam (Gong et al., CVPR 2012)."""

from fedshift.data.dataset import Archive, Release
from fedshift.data.tree import ImageTree


class OfficeCaltech10(ImageTree):
    """2,533 images: caltech 1,123, amazon 958, dslr 157, webcam 295, in FDSE's order.

    18 sets of byte-identical files (26 surplus images, 25 of them in amazon) share a `group`. A random split
    may separate them, unless `partition.groups` is `together`. There is no official split: FedBN's lists were
    not found.
    """

    name = "office_caltech10"
    domains = ("caltech", "amazon", "dslr", "webcam")
    classes = (
        "backpack", "bike", "calculator", "headphones", "keyboard", "laptop_computer", "monitor", "mouse", "mug", "projector",
    )  # fmt: skip
    spellings = {"laptop": "laptop_computer"}
    releases = {
        "original": Release(
            source="github.com/ChristophRaab/Office_Caltech_DA_Dataset, commit 91ad5c3 (the files that "
            "FDSE downloads)",
            licence="none stated; its README asks to cite Gong et al. 2012: for research; do not "
            "redistribute",
            citation="Gong, Shi, Sha, Grauman: Geodesic Flow Kernel for Unsupervised Domain Adaptation. "
            "CVPR 2012",
            manifest="office_caltech10.json",
            archives=(
                Archive(
                    "https://github.com/ChristophRaab/Office_Caltech_DA_Dataset/archive/91ad5c3f5b7b205083692e2aa62630692596cb1a.zip",
                    "WwZzz/FDSE_CVPR25, benchmark/office_caltech10_classification/config.py names the "
                    "repository; the form is GitHub's",
                ),
            ),
        )
    }
