"""The state of a data set in a project: absent, raw, verified, prepared, partitioned."""

import contextlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_whole
from fedshift.common.registry import get
from fedshift.data.verify import stamped
from fedshift.storage.workspace import Workspace

WORDS = {"embedded": "comes with its library", "raw": "raw (not verified)"}


@dataclass(frozen=True)
class State:
    """The state of one release of a data set; as text: "verified, 9,991 files, prepared (64, 256 px)".

    - raw: "embedded" in a library, "absent", "raw" (not verified by the present manifest) or "verified"
    - files: number of files of a verified tree; 0 for any other
    - prepared: sides of decoded images in pixels, ascending
    - partitions: number of its partitions
    """

    raw: str = "absent"
    files: int = 0
    prepared: tuple[int, ...] = ()
    partitions: int = 0

    def __str__(self) -> str:
        text = [WORDS.get(self.raw, self.raw)]
        text += [f"{self.files:,} files"] if self.files else []
        text += [f"prepared ({', '.join(map(str, self.prepared))} px)"] if self.prepared else []
        text += [f"partitioned ({self.partitions})"] if self.partitions else []
        return ", ".join(text)


def states(workspace: Workspace, name: str) -> dict[str, State]:
    """Release -> state, for every release of data set `name` that is declared or has images here.

    Reads names, stamps and footers, but no images; to check a stamp, run `fedshift verify`.
    """
    import pyarrow.parquet as pq

    from fedshift.common.parquet import KEY

    dataset, data = get("datasets", name), workspace.root / "data"
    sizes: dict[str, set[int]] = defaultdict(set)
    for path in sorted((data / "prepared" / name).glob("*/prepared.json")):
        if facts := read_whole(path):
            sizes[facts["release"]].add(facts["prepare"]["px"])
    trees = sorted((data / "raw" / name).glob("*/"))
    raw = [tree.name for tree in trees if tree.name[0] != "." and tree.suffix != ".archives"]
    partitions = Counter[str]()
    for path in (data / "partitions" / name).glob("*.parquet"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # cut short: it counts as missing
            partitions[json.loads(pq.read_schema(path).metadata[KEY])["data"]["release"]] += 1
    found = {}
    for release in dict.fromkeys([*dataset.releases, *raw, *sizes, *partitions]):
        how_far, files = "embedded" if dataset.embedded else "absent", 0
        if not dataset.embedded and workspace.raw(name, release).exists():
            how_far = "raw"
            with contextlib.suppress(FedshiftError):  # no manifest
                if manifest := stamped(workspace, name, release):
                    how_far, files = "verified", manifest["files"]
        found[release] = State(how_far, files, tuple(sorted(sizes[release])), partitions[release])
    return found
