"""The file of an archived run: the same bytes each time, and refused when a single one is another."""

import io
import json
import shutil
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fedshift.archive import store
from fedshift.archive.file import INDEX, METRICS, STATISTICS, SUMMARY, Archived, read
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


def test_a_run_comes_back_byte_for_byte_without_weights(here: Workspace, archived: Archived) -> None:
    (run,) = [run for run in here.runs() if "fedbn" in run.path.parts]
    again = store.unpacked(here, read(archived.path))
    assert again.name == run.name and again.summary() == run.summary()
    for name in (SUMMARY, METRICS, STATISTICS):
        assert (again.path / name).read_bytes() == (run.path / name).read_bytes()
    assert sorted(path.name for path in again.path.iterdir()) == sorted([SUMMARY, METRICS, STATISTICS])
    (again.path / METRICS).write_bytes(b"PAR1")  # cut off by a crash
    assert store.unpacked(here, archived) == again
    assert (again.path / METRICS).read_bytes() == run.metrics.read_bytes()


def test_the_same_run_gives_the_same_bytes(here: Workspace, archived: Archived) -> None:
    run = store.unpacked(here, archived)
    elsewhere = run.path.parents[2] / run.name
    shutil.copytree(run.path, elsewhere)
    again = store.pack(here, type(run)(elsewhere))
    assert again.path == archived.path and again.data == archived.path.read_bytes() == archived.data


def test_a_flipped_byte_is_refused_wherever_it_is_and_a_file_that_was_cut_off(archived: Archived) -> None:
    whole = archived.path.read_bytes()
    for kept in (0, 1, 100, 5000):
        archived.path.write_bytes(whole[:kept])
        with pytest.raises(FedshiftError, match="is not a whole ZIP file"):
            read(archived.path)
    for place in {*range(0, len(whole), 97), *range(400), *range(len(whole) - 400, len(whole))}:
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        archived.path.write_bytes(damaged)
        with pytest.raises(FedshiftError, match=archived.path.name):
            read(archived.path)


def zipped(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as whole:
        for name, data in members.items():
            whole.writestr(name, data)


def members(archived: Archived) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archived.data)) as whole:
        return {name: whole.read(name) for name in whole.namelist()}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({METRICS: b"other"}, f"{METRICS}: has other bytes"),
        ({"../outside.parquet": b"x"}, "../outside.parquet: is not a file of an archived run"),
        ({INDEX: b"{"}, f"{INDEX}: is not whole"),
        ({INDEX: b'{"format": 2}'}, f"{INDEX}: is of format 2, and this code reads 1"),
        ({INDEX: b'{"format": 1, "run": "a"}'}, f"{INDEX}: "),
    ],
)
def test_a_doctored_member_is_named(archived: Archived, changed: dict[str, bytes], said: str) -> None:
    zipped(archived.path, members(archived) | changed)
    with pytest.raises(FedshiftError) as error:
        read(archived.path)
    assert f"{archived.path}: " in str(error.value) and said in str(error.value)


def test_a_member_that_is_missing_or_compressed_is_named(archived: Archived) -> None:
    every = members(archived)
    zipped(archived.path, {name: data for name, data in every.items() if name != STATISTICS})
    with pytest.raises(FedshiftError, match=f"{STATISTICS}: is not there"):
        read(archived.path)
    zipped(archived.path, every, zipfile.ZIP_DEFLATED)
    with pytest.raises(FedshiftError, match="is compressed"):
        read(archived.path)


def test_a_file_under_another_name_is_refused(archived: Archived) -> None:
    other = archived.path.with_name(archived.path.name.replace(archived.hash, "0" * 12))
    archived.path.rename(other)
    with pytest.raises(FedshiftError, match="does not match its name"):
        read(other)
    with pytest.raises(FedshiftError, match="has no name of an archived run"):
        read(archived.path.with_name("run.zip"))


def test_of_large_statistics_the_rounds_that_tables_show_are_kept(
    here: Workspace, archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LARGE", 100)
    run = next(run for run in here.runs() if "fedbn" in run.path.parts)
    small = store.pack(here, run)
    summary = run.summary() or {}
    shown = {*summary["best_round"].values(), 2}
    kept = pq.read_table(io.BytesIO(small.content[STATISTICS]))
    assert {*kept["round"].to_pylist()} == shown
    assert kept.schema == pq.read_schema(io.BytesIO(archived.content[STATISTICS]))
    assert "alone" in small.index.left_out[STATISTICS]
    assert small.content[METRICS] == archived.content[METRICS]
    result = run.evaluated / f"fdse-{'0' * 16}.parquet"
    result.parent.mkdir()
    result.write_bytes(run.metrics.read_bytes())
    name = f"evaluated/{result.name}"
    assert name in store.pack(here, run).index.left_out
    monkeypatch.undo()
    assert store.pack(here, run).content[name] == result.read_bytes()


def test_of_a_run_that_stopped_early_the_last_round_is_the_one_that_it_trained(
    here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LARGE", 100)
    run = next(here.runs())
    early = {**(run.summary() or {}), "rounds": 1, "best_round": {"first": 0, "later": 0}}
    run.summary_file.write_text(json.dumps(early))
    kept = pq.read_table(io.BytesIO(store.pack(here, run).content[STATISTICS]))
    assert {*kept["round"].to_pylist()} == {0, 1}
    run.summary_file.unlink()
    with pytest.raises(FedshiftError, match="is not finished"):
        store.pack(here, run)
