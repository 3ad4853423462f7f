"""Names of what lies in data/: the code that makes it is part of them, comments are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedshift import identity
from fedshift.identity import partition_name, prepared_name, rendered_name
from fedshift.spec import RunSpec, Source, parse
from fedshift.spec.resolve import resolve

Edit = Callable[[str, str, str], None]
CACHED = (identity.fingerprint, identity._tree_hash, identity._imports)


def forget() -> None:
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edit]:
    """Give a module's file another text, as the fingerprint reads it."""
    source, changed = identity._source, dict[str, Path]()
    monkeypatch.setattr(identity, "_source", lambda name: changed.get(name) or source(name))

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


def spec(scheme: str = "domain_per_client", **modify: object) -> RunSpec:
    value = {
        "data": {"dataset": "digits", "target": "ink", "normalise": "half"},
        "partition": {"scheme": scheme, "modify": modify},
        "model": {"name": "digits_cnn"},
        "method": {"name": "ccst", "params": {"space": "rgb"}},
        "local": {"batch": 32, "lr": 0.1},
        "federation": {"rounds": 1},
    }
    return resolve(parse(value, "test"))


def names(run: RunSpec) -> tuple[str, str]:
    return partition_name(run), rendered_name(run)


def test_changed_draw_is_another_partition_and_another_rendering(edited: Edit) -> None:
    partition, rendered = names(spec())
    edited("fedshift.data.scheme", "rng.random_raw(n), kind", "-rng.random_raw(n), kind")
    assert names(spec())[0] != partition and names(spec())[1] != rendered


def test_changed_scheme_or_modifier_is_another_partition_of_its_own_runs_only(edited: Edit) -> None:
    runs = [spec(), spec("dirichlet"), spec(few_shot_target={"each": 5})]
    before = [partition_name(run) for run in runs]
    edited("fedshift.data.partitions.dirichlet", "import numpy as np", "import numpy as np\n\nSEEN = 1")
    assert [partition_name(run) == old for run, old in zip(runs, before, strict=True)] == [
        True,
        False,
        True,
    ]
    edited("fedshift.data.modifiers.few_shot_target", "import numpy as np", "import numpy as np\n\nSEEN = 1")
    assert [partition_name(run) == old for run, old in zip(runs, before, strict=True)] == [
        True,
        False,
        False,
    ]


def test_changed_rendering_is_another_folder_of_the_same_partition_and_another_run(edited: Edit) -> None:
    (partition, rendered), code = names(spec()), identity.code(spec())
    edited("fedshift.data.renderings.ccst", "* 255).round()", "* 255).floor()")
    assert names(spec())[0] == partition and names(spec())[1] != rendered
    assert identity.code(spec()) != code


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("fedshift.data.datasets.digits", ".astype(np.uint8)", ".astype(np.uint8) ^ 255"),
        ("fedshift.data.decode", "reducing_gap=None", "reducing_gap=2.0"),
        ("fedshift.data.prepare", "index = dataset.index(raw)", "index = dataset.index(raw)[::-1]"),
        ("fedshift.data.dataset", '"split": "",', '"split": "train",'),
    ],
)
def test_changed_decoder_is_another_folder_of_images_and_all_that_is_made_of_them(
    edited: Edit, module: str, old: str, new: str
) -> None:
    before = prepared_name(spec().data), *names(spec()), identity.code(spec())
    edited(module, old, new)
    after = prepared_name(spec().data), *names(spec()), identity.code(spec())
    assert all(one != other for one, other in zip(before, after, strict=True))
    edited(module, old, old)
    assert (
        prepared_name(spec().data),
        *names(spec()),
        identity.code(spec()),
    ) == before


def test_images_of_one_data_set_are_not_named_by_the_module_of_another(edited: Edit) -> None:
    data = {name: Source(dataset=name) for name in ("digits", "pacs", "office_caltech10")}
    before = {name: prepared_name(source) for name, source in data.items()}
    edited("fedshift.data.tree", 'return image.convert("RGB")', 'return image.convert("L")')
    changed = {name for name, source in data.items() if prepared_name(source) != before[name]}
    assert changed == {"pacs", "office_caltech10"}
    edited(
        "fedshift.data.convert", "QUALITY = 90", "QUALITY = 91"
    )  # another tree, which has a hash of its own
    edited("fedshift.data.tree", 'return image.convert("RGB")', 'return image.convert("RGB")')
    assert {name: prepared_name(source) for name, source in data.items()} == before


def test_comments_and_docstrings_change_no_name(edited: Edit) -> None:
    before = prepared_name(spec().data), *names(spec())
    edited("fedshift.data.scheme", '"""A random order of', '"""# Some order of')
    edited("fedshift.data.renderings.ccst", "BATCH = 64", "BATCH = 64  # images at once")
    edited("fedshift.data.decode", "CHUNK = 64", "CHUNK = 64  # images")
    edited("fedshift.data.datasets.digits", '"""Pixels uint8 [32', '"""# Pixels uint8 [32')
    assert (prepared_name(spec().data), *names(spec())) == before
