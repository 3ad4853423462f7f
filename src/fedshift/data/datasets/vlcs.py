"""VLCS: five classes in Caltech101, LabelMe, VOC2007 and SUN09 (Fang et al., ICCV 2013)."""

from fedshift.data.dataset import Release
from fedshift.data.tree import ImageTree

LICENCE = "none stated for the collection; each source has its own: for research, do not redistribute"
CITATION = (
    "Fang, Xu, Rockmore: Unbiased Metric Learning. ICCV 2013; Torralba, Efros: Unbiased Look at Dataset "
    "Bias. CVPR 2011"
)
COUNTS = {"caltech": 1_415, "labelme": 2_656, "pascal": 3_376, "sun": 3_282}


class VLCS(ImageTree):
    """10,729 images: caltech 1,415, labelme 2,656, pascal 3,376, sun 3,282 (JigenDG's lists; this project has
    no images).

    `original` has its official split as folders, domain/{train,crossval,test}/class; a folder `full` repeats
    them and is skipped. Classes may be folders 0 to 4 in this order. `domainbed`: the same images as
    domain/class, without a split. caltech's 870 persons are 435 faces twice, whole and cropped:
    near-duplicates that no hash finds.
    """

    name = "vlcs"
    domains = ("caltech", "labelme", "pascal", "sun")
    classes = ("bird", "car", "chair", "dog", "person")
    levels = ("images", "train", "crossval", "test")
    passed_over = frozenset({"full"})
    spellings = {
        "Caltech101": "caltech", "LabelMe": "labelme", "VOC2007": "pascal", "SUN09": "sun",
        **{str(number): name for number, name in enumerate(("bird", "car", "chair", "dog", "person"))},
    }  # fmt: skip
    releases = {
        "original": Release(
            source="Dassl's vlcs.zip: VLCS/<DOMAIN>/{train,crossval,test}/<class>",
            licence=LICENCE,
            citation=CITATION,
            by_hand=(
                "https://drive.google.com/uc?id=1r0WL5DDqKfSPp9E3tRENwHaXNs1olLZd "
                "(KaiyangZhou/Dassl.pytorch, dassl/data/datasets/dg/vlcs.py)",
            ),
            counts=COUNTS,
        ),
        "domainbed": Release(
            source="DomainBed's VLCS.tar.gz: VLCS/{Caltech101,LabelMe,SUN09,VOC2007}/<class>",
            licence=LICENCE,
            citation=CITATION,
            by_hand=(
                "https://drive.google.com/uc?id=1skwblH1_okBwxWxmRsp9_qi15hyPpxg8 "
                "(facebookresearch/DomainBed, domainbed/scripts/download.py)",
            ),
            counts=COUNTS,
        ),
    }
