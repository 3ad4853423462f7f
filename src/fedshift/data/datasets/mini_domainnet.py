"""Mini-DomainNet as in FedRD's tables: six domains; ten classes, or the 126 of a list."""

from pathlib import Path

from fedshift.data.dataset import Release
from fedshift.data.datasets.domainnet import CITATION, CLASSES, DOMAINS, LICENCE, LISTS, PAGE
from fedshift.data.datasets.domainnet10 import TEN
from fedshift.data.tree import ImageTree

SPLITS_MINI = (
    "https://drive.google.com/open?id=15rrLDCrzyi6ZY-1vJar3u7plgLe4COL7 (splits_mini; "
    "KaiyangZhou/Dassl.pytorch, DATASETS.md)"
)


class MiniDomainNet(ImageTree):
    """A tree of DomainNet, whose other classes are skipped. The paper does not define the data set.

    - `original`: every image of DomainNet-10's classes in the tree [guess]
    - `list126`: Zhou et al.'s splits_mini (126 classes; clipart, painting, real, sketch), given by `--lists`

    That list does not cover infograph and quickdraw. From these two domains, `list126` takes every image of
    its classes [guess], without an official split.
    """

    name = "mini_domainnet"
    domains = DOMAINS
    classes = TEN
    every_class = False
    passed_over = LISTS.union(CLASSES)
    releases = {
        "original": Release(source=PAGE, licence=LICENCE, citation=CITATION, by_hand=(PAGE,)),
        "list126": Release(
            source=f"{PAGE}, and the lists of {SPLITS_MINI}",
            licence=LICENCE,
            citation=f"{CITATION}; Zhou, Yang, Qiao, Xiang: Domain Adaptive Ensemble Learning. IEEE TIP 2021",
            by_hand=(PAGE, SPLITS_MINI),
            listed_only=True,
        ),
    }

    def domains_and_classes(self, raw: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not self.facts(raw).listed_only:
            return self.domains, self.classes
        named = {path.split("/")[1] for path in super()._listed(raw)}
        return self.domains, tuple(name for name in CLASSES if name in named)

    def _listed(self, raw: Path) -> dict[str, str]:
        listed = super()._listed(raw)
        if not self.facts(raw).listed_only:
            return listed
        with_list = {path.split("/")[0] for path in listed}
        return listed | {path: "" for path in self._look(raw)[0] if path.split("/")[0] not in with_list}
