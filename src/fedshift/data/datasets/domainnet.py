"""DomainNet: 345 classes in six domains (Peng et al., ICCV 2019)."""

from fedshift.data.dataset import Archive, Release
from fedshift.data.tree import ImageTree

CITATION = (
    "Peng, Bai, Xia, Huang, Saenko, Wang: Moment Matching for Multi-Source Domain Adaptation. ICCV 2019"
)
LICENCE = "see https://ai.bu.edu/M3SDA; images from the web: for research, do not redistribute"
PAGE = "https://ai.bu.edu/M3SDA, the authors' page: images, train and test lists of both versions"
STATED = "facebookresearch/DomainBed, domainbed/scripts/download.py"
HOST = "http://csr.bu.edu/ftp/visda/2019/multi-source"
ARCHIVES = (
    "groundtruth/clipart.zip", "infograph.zip", "groundtruth/painting.zip", "quickdraw.zip", "real.zip", "sketch.zip",
)  # fmt: skip
DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
# Folders of lists that may be next to the domains.
LISTS = frozenset({"splits", "splits_mini", "image_list", "txt"})
CLEANED = Release(
    source=f"{PAGE}: take the cleaned version, and the twelve lists <domain>_train.txt and <domain>_test.txt",
    licence=LICENCE,
    citation=CITATION,
    archives=tuple(Archive(f"{HOST}/{file}", STATED) for file in ARCHIVES),
    by_hand=(PAGE,),
    listed_only=True,
    counts=dict(zip(DOMAINS, (48_129, 51_605, 72_266, 172_500, 172_947, 69_128), strict=True)),
)
CLASSES = tuple(
    """
    aircraft_carrier airplane alarm_clock ambulance angel animal_migration ant anvil apple arm asparagus axe backpack banana
    bandage barn baseball baseball_bat basket basketball bat bathtub beach bear beard bed bee belt bench bicycle binoculars bird
    birthday_cake blackberry blueberry book boomerang bottlecap bowtie bracelet brain bread bridge broccoli broom bucket bulldozer
    bus bush butterfly cactus cake calculator calendar camel camera camouflage campfire candle cannon canoe car carrot castle cat
    ceiling_fan cello cell_phone chair chandelier church circle clarinet clock cloud coffee_cup compass computer cookie cooler
    couch cow crab crayon crocodile crown cruise_ship cup diamond dishwasher diving_board dog dolphin donut door dragon dresser
    drill drums duck dumbbell ear elbow elephant envelope eraser eye eyeglasses face fan feather fence finger fire_hydrant
    fireplace firetruck fish flamingo flashlight flip_flops floor_lamp flower flying_saucer foot fork frog frying_pan garden
    garden_hose giraffe goatee golf_club grapes grass guitar hamburger hammer hand harp hat headphones hedgehog helicopter helmet
    hexagon hockey_puck hockey_stick horse hospital hot_air_balloon hot_dog hot_tub hourglass house house_plant hurricane
    ice_cream jacket jail kangaroo key keyboard knee knife ladder lantern laptop leaf leg light_bulb lighter lighthouse lightning
    line lion lipstick lobster lollipop mailbox map marker matches megaphone mermaid microphone microwave monkey moon mosquito
    motorbike mountain mouse moustache mouth mug mushroom nail necklace nose ocean octagon octopus onion oven owl paintbrush
    paint_can palm_tree panda pants paper_clip parachute parrot passport peanut pear peas pencil penguin piano pickup_truck
    picture_frame pig pillow pineapple pizza pliers police_car pond pool popsicle postcard potato power_outlet purse rabbit
    raccoon radio rain rainbow rake remote_control rhinoceros rifle river roller_coaster rollerskates sailboat sandwich saw
    saxophone school_bus scissors scorpion screwdriver sea_turtle see_saw shark sheep shoe shorts shovel sink skateboard skull
    skyscraper sleeping_bag smiley_face snail snake snorkel snowflake snowman soccer_ball sock speedboat spider spoon spreadsheet
    square squiggle squirrel stairs star steak stereo stethoscope stitches stop_sign stove strawberry streetlight string_bean
    submarine suitcase sun swan sweater swing_set sword syringe table teapot teddy-bear telephone television tennis_racquet tent
    The_Eiffel_Tower The_Great_Wall_of_China The_Mona_Lisa tiger toaster toe toilet tooth toothbrush toothpaste tornado tractor
    traffic_light train tree triangle trombone truck trumpet t-shirt umbrella underwear van vase violin washing_machine watermelon
    waterslide whale wheel windmill wine_bottle wine_glass wristwatch yoga zebra zigzag
    """.split()  # noqa: SIM905 (a list of 345 quoted names is harder to read)
)


class DomainNet(ImageTree):
    """586,575 images after cleaning, 596,010 before (counts of the authors' page). Classes have the order of
    the official lists.

    A domain may have no image of a class (t-shirt in painting's training list). Release `cleaned` contains
    the files of the official lists of the cleaned version, and their split. These lists are not part of this
    project (two of twelve were found); give them by `--lists`. There is no manifest, because this project
    never had the images. The official lists have no validation part.
    """

    name = "domainnet"
    domains = DOMAINS
    classes = CLASSES
    every_class = False
    passed_over = LISTS
    releases = {
        "original": Release(
            source=f"{PAGE}: take the original version",
            licence=LICENCE,
            citation=CITATION,
            by_hand=(PAGE,),
            counts=dict(zip(DOMAINS, (48_837, 53_201, 75_759, 172_500, 175_327, 70_386), strict=True)),
        ),
        "cleaned": CLEANED,
    }
