"""Fixtures that every test may use."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.data.server import Server, serving
from tests.once import once

Edit = Callable[[str, str, str], None]
ROOT = Path(__file__).parents[1]
SLOWEST = (
    "faults",
    "slurm",
    "workflow",
    "test_examples.py",
    "tracking",
    "training",
    "contract",
    "test_every_leaf.py",
)


def pytest_configure() -> None:
    """A job that a shell starts in the background ignores Ctrl-C, and so would the processes that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that workers end together; the order within a file stays."""

    def place(item: pytest.Item) -> int:
        top = item.path.relative_to(ROOT).parts[1]  # below tests/, or own/
        return SLOWEST.index(top) if top in SLOWEST else len(SLOWEST)

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test draws the same numbers, whatever ran before it in its process."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images and lists; without it the test is skipped, or fails under FEDSHIFT_REQUIRE_SHARED=1."""
    path = Path(os.environ.get("FEDSHIFT_SHARED", ROOT.parent / "shared"))
    if not (path / "data").is_dir():
        if os.environ.get("FEDSHIFT_REQUIRE_SHARED") == "1":
            pytest.fail(f"{path}/data does not exist, and FEDSHIFT_REQUIRE_SHARED=1")
        pytest.skip(f"{path}/data does not exist")
    return path


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project root that holds experiments, references, and the prepared digits; tests link its data, and do not change it."""
    from fedshift.data.prepare import prepare
    from fedshift.storage.workspace import Workspace

    def make(root: Path) -> None:
        for name in ("experiments", "reference", "params.yaml"):
            (root / name).symlink_to(ROOT / name)
        prepare(Workspace(root), "digits", jobs=1)

    return once(tmp_path_factory, "digits", make)


@pytest.fixture
def project(digits: Path, tmp_path: Path) -> Path:
    """A project root of the test's own: experiments and references to change, the prepared digits linked, no results."""
    return clone(digits, tmp_path)


def clone(digits: Path, root: Path) -> Path:
    """Make of an empty folder a project like `project`; returns it."""
    shutil.copytree(ROOT / "experiments", root / "experiments")
    shutil.copytree(ROOT / "reference", root / "reference")
    shutil.copy(ROOT / "params.yaml", root)
    link_images(digits, root)
    return root


def link_images(digits: Path, root: Path) -> None:
    """Give a project the prepared digits; whatever else it prepares, another size for example, stays its own."""
    place = root / "data" / "prepared" / "digits"
    place.mkdir(parents=True)
    for images in (digits / "data" / "prepared" / "digits").iterdir():
        (place / images.name).symlink_to(images)


@pytest.fixture
def server() -> Iterator[Server]:
    """A web server on this machine."""
    with serving() as state:
        yield state


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edit]:
    """Give a module's file another text (module, old part, new part), as fingerprints read it."""
    from fedshift import identity

    source, changed = identity._source, dict[str, Path]()
    monkeypatch.setattr(identity, "_source", lambda name: changed.get(name) or source(name))

    def forget() -> None:
        for function in (identity.fingerprint, identity._tree_hash, identity._imports):
            function.cache_clear()

    def edit(module: str, old: str, new: str) -> None:
        path = source(module)
        assert path is not None
        text = path.read_text()
        assert text.count(old) == 1
        changed[module] = tmp_path / path.name
        changed[module].write_text(text.replace(old, new))
        forget()

    yield edit
    forget()
