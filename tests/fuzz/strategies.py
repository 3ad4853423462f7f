"""Cases of each kind, as values that JSON can hold: what a user or a publisher could write, and worse."""

import base64
import io
import stat
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parents[2]
EXPERIMENT = """\
title: Small
protocol: digits
spec: {federation: {rounds: 1}, local: {epochs: 1, batch: 16}, partition: {scheme: dirichlet, params: {clients: 3, min_size: 5}}}
methods: {fedavg: , own: {method: {name: fedprox, params: {mu: 0.1}}}}
axes: {target: [plain], seed: [0], mu: {key: local.lr, values: [0.1]}}
only: {own: {seed: [0]}}
adapt: {later: {run: own, name: fedbn, params: {epochs: 1}}}
evaluations: [confusion, {features: {images: 5}}]
tables: {main: {title: T, columns: [target, metric], metrics: [id, ood, cost.macs], select: [last]}}
figures: [curves]
published: {fedavg: []}
"""
PARAMS = (
    "experiments: [fuzz]\npack: 2\nparallel: 1\nhours: 3\nminutes: 2\ndevice: cpu\nsets: {night: [fuzz]}\n"
)
CLUSTER = "slurm_partition: gpu\nslurm_account: a\nqos: normal\nconstraint: x\nslurm_extra: \"'--signal=TERM@120'\"\n"
WORDS = ["", "../x", "a/b", "/etc", ".", "nan", "{x}", "all", "\0", "é", "x" * 300, "seed", "fedavg", "*", "id", "ratio.id"]  # fmt: skip

numbers = st.integers(-(2**70), 2**70) | st.integers(-3, 3) | st.floats()
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(WORDS)
junk: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in _places(part, (*path, key)))]


@st.composite
def texts(draw: st.DrawFn, base: str) -> str:
    """A YAML file with one to three things other than they should be; one in five is cut or spliced as a text."""
    value = yaml.safe_load(base)
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(value) if place]
        if not places:
            break
        *above, key = draw(st.sampled_from(places))
        parent = value
        for part in above:
            parent = parent[part]
        action = draw(st.sampled_from(["replace", "delete", "add", "rename"]))
        if action == "replace":
            parent[key] = draw(junk)
        elif action == "delete":
            del parent[key]
        elif isinstance(parent, list):
            parent.append(draw(junk))
        else:
            new = draw(scalars)
            parent[new] = draw(junk) if action == "add" else parent.pop(key)
    text = yaml.safe_dump(value, allow_unicode=True)
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.text(max_size=6)) + text[place + draw(st.integers(0, 9)) :]
    return text


def _protocol() -> str:
    return (REPOSITORY / "reference" / "protocols" / "digits.yaml").read_text()


# ---- trees of images

NAMES = st.sampled_from(["cat", "Cat", "cat ", "dog", "images", "train", "é", "é", "a\rb", "-x", "x" * 120, ".git", "__MACOSX"])  # fmt: skip
FILES = st.sampled_from(["0.png", "1.jpg", "2.PNG", "3.jfif", "x.txt", "Thumbs.db", "\t.png", "4.gif", "5.tif", "nosuffix"])  # fmt: skip
CONTENTS = st.sampled_from(["image", "image", "image", "same", "cut", "empty", "text", "wide", "sixteen", "link", "lost", "folder"])  # fmt: skip


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """A folder with files of all sorts at all depths, and how it is fetched."""
    right, odd = st.lists(NAMES, min_size=2, max_size=2), st.lists(NAMES, max_size=3)
    folders = draw(st.lists(right | right | odd, min_size=1, max_size=4))
    entry = st.tuples(st.sampled_from(folders), FILES, CONTENTS)
    return {
        "entries": [[*parts, name, content] for parts, name, content in draw(st.lists(entry, max_size=8))],
        "ignore": draw(st.lists(st.sampled_from(["*.txt", "*/cat*", "[", "**", ""]), max_size=2)),
        "skip_broken": draw(st.booleans()),
    }


# ---- archives

MEMBERS = st.sampled_from(
    ["tree/A/0.png", "tree/B/1.png", "../evil", "/evil", "a/../../evil", "tree/../../../evil", "x" * 260, "\\evil", "C:evil", ".", "tree", "tree/A", "é", ""]
)  # fmt: skip
KINDS = st.sampled_from(["file", "file", "file", "folder", "link", "hard", "fifo", "device", "sparse"])


@st.composite
def archives(draw: st.DrawFn) -> str:
    """A zip or tar archive of members that may be anything, some of its bytes changed: base64."""
    members = draw(st.lists(st.tuples(MEMBERS, KINDS, st.binary(max_size=40)), max_size=5))
    data = bytearray(draw(st.sampled_from([_zip, _tar]))(members))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2, 8]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 5)) == 0:
        del data[draw(st.integers(0, len(data))) :]
    return base64.b64encode(data).decode()


def _zip(members: list[tuple[str, str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        warnings.simplefilter("ignore")  # a name twice
        for name, kind, content in members:
            if kind == "folder":
                name = f"{name}/"
            info = zipfile.ZipInfo(name or "x")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16 if kind == "link" else 0o644 << 16
            file.writestr(info, b"../../evil" if kind == "link" else content)
    return buffer.getvalue()


def _tar(members: list[tuple[str, str, bytes]]) -> bytes:
    types = {
        "folder": tarfile.DIRTYPE,
        "link": tarfile.SYMTYPE,
        "hard": tarfile.LNKTYPE,
        "fifo": tarfile.FIFOTYPE,
    }
    types |= {"device": tarfile.CHRTYPE, "sparse": tarfile.GNUTYPE_SPARSE}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = types.get(kind, tarfile.REGTYPE), "../../evil"
            info.size = len(content) if kind in ("file", "sparse") else 0
            file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


# ---- partitions

partitions = st.fixed_dictionaries(
    {
        "sizes": st.dictionaries(st.sampled_from("abcd"), st.integers(1, 60), min_size=1, max_size=4),
        "groups": st.integers(0, 12),
        "target": st.sampled_from([None, "a", "b", "z"]) | st.just(["a", "b"]),
        "seed": st.integers(-1, 2**63),
        "partition": st.fixed_dictionaries(
            {"scheme": st.sampled_from(["domain_per_client", "domains_per_client", "clients_per_domain", "dirichlet"])},
            optional={
                "params": st.dictionaries(
                    st.sampled_from(["clients", "d", "alpha", "min_size"]),
                    st.integers(-1, 12) | st.sampled_from([1e-300, 1e-4, 0.3, 1.0, 1e6, 10**9, 2**70, True, None, "x"]),
                    max_size=3,
                ),
                "split": st.sampled_from(["random", "official"]),
                "groups": st.sampled_from(["apart", "together", "ignore"]),
                "target_split": st.sampled_from(["all", "test", "client"]),
                "fractions": st.sampled_from([[0.8, 0.1, 0.1], [0.5, 0.5, 0], [1, 0, 0], [0.1, 0.8, 0.1], [0.8, 0.1]]),
                "modify": st.dictionaries(
                    st.sampled_from(["few_shot_target", "label_shift"]),
                    st.dictionaries(st.sampled_from(["each", "keep", "share"]), st.sampled_from([0, 1, 2, 0.5, -1, 50]), max_size=2),
                    max_size=2,
                ),
            },
        ),
    }
)  # fmt: skip

CASES: dict[str, st.SearchStrategy[Any]] = {
    "experiment": texts(EXPERIMENT),
    "protocol": texts(_protocol()),
    "params": texts(PARAMS),
    "cluster": texts(CLUSTER),
    "tree": trees(),
    "archive": archives(),
    "partition": partitions,
}
