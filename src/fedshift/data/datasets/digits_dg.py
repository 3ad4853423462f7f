"""Digits-DG: MNIST, MNIST-M, SVHN and synthetic digits, 600 of each class (Zhou et al., AAAI 2020)."""

from fedshift.data.dataset import Release
from fedshift.data.tree import ImageTree


class DigitsDG(ImageTree):
    """24,000 images of 32 x 32, 6,000 a domain, as domain/{train,val}/class: the authors' 80/20 split.

    This project has neither a manifest nor images.
    """

    name = "digits_dg"
    domains = ("mnist", "mnist_m", "svhn", "syn")
    classes = tuple("0123456789")
    levels = ("images", "train", "val")
    releases = {
        "original": Release(
            source="Dassl's digits_dg.zip: digits_dg/<domain>/{train,val}/<class>",
            licence="none stated for the collection; each source has its own: for research, do not "
            "redistribute",
            citation="Zhou, Yang, Hospedales, Xiang: Deep Domain-Adversarial Image Generation for Domain "
            "Generalisation. AAAI 2020",
            by_hand=(
                "https://drive.google.com/uc?id=15V7EsHfCcfbKgsDmzQKj_DfXt_XYp_P7 "
                "(KaiyangZhou/Dassl.pytorch, dassl/data/datasets/dg/digits_dg.py)",
            ),
            counts=dict.fromkeys(("mnist", "mnist_m", "svhn", "syn"), 6_000),
        )
    }
