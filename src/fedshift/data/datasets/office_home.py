"""Office-Home: 65 classes as art, clip art, product photos and photos (Venkateswara et al., CVPR 2017)."""

from fedshift.data.dataset import Release
from fedshift.data.tree import ImageTree

LICENCE = "see http://hemanthdv.org/OfficeHome-Dataset: for research; do not redistribute"
CITATION = (
    "Venkateswara, Eusebio, Chakraborty, Panchanathan: Deep Hashing Network for Unsupervised Domain "
    "Adaptation. CVPR 2017"
)
COUNTS = {"art": 2_427, "clipart": 4_365, "product": 4_439, "real_world": 4_357}
CLASSES = tuple(
    """
    Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair Clipboards Computer Couch Curtains
    Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops Flowers Folder Fork Glasses Hammer Helmet Kettle Keyboard Knives
    Lamp_Shade Laptop Marker Monitor Mop Mouse Mug Notebook Oven Pan Paper_Clip Pen Pencil Postit_Notes Printer Push_Pin Radio
    Refrigerator Ruler Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon TV Table Telephone ToothBrush Toys Trash_Can
    Webcam
    """.split()  # noqa: SIM905
)


class OfficeHome(ImageTree):
    """15,588 images: art 2,427, clipart 4,365, product 4,439, real_world 4,357; ImageFolder's class order.

    The names of all files are known (reference/lists/office_home.csv.gz). Their hashes are not, because this
    project has no images. There is no official split. `dassl` (StableFDG): the same images as
    domain/{train,val}/class, about 90/10.
    """

    name = "office_home"
    domains = ("art", "clipart", "product", "real_world")
    classes = CLASSES
    levels = ("images", "train", "val")
    releases = {
        "original": Release(
            source="the authors' OfficeHomeDataset_10072016.zip: {Art,Clipart,Product,Real World}/<class>",
            licence=LICENCE,
            citation=CITATION,
            by_hand=(
                "http://hemanthdv.org/OfficeHome-Dataset/ (KaiyangZhou/Dassl.pytorch, DATASETS.md)",
                "https://drive.google.com/uc?id=1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC "
                "(facebookresearch/DomainBed, domainbed/scripts/download.py)",
            ),
            lists="office_home.csv.gz",
            complete=True,
            counts=COUNTS,
        ),
        "dassl": Release(
            source="Dassl's office_home_dg.zip: office_home_dg/<domain>/{train,val}/<class>",
            licence=LICENCE,
            citation=CITATION,
            by_hand=(
                "https://drive.google.com/uc?id=1gkbf_KaxoBws-GWT3XIPZ7BnkqbAxIFa "
                "(KaiyangZhou/Dassl.pytorch, dassl/data/datasets/dg/office_home_dg.py)",
            ),
            counts=COUNTS,
        ),
    }
