"""YAML that people write: each word means one thing, whichever system and editor saved the file."""

from pathlib import Path

import pytest
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_rows
from fedshift.common.yaml_file import read, value, written

AMBIGUOUS = [
    "24:00", "1:30", "1:30.5", "-1:30", "010", "-010", "08", "0100", "0x10", "0o17", "0b11", "1_000", "1_000.5", "yes", "No", "ON", "off",
    "=", "2026-11-27", "2026-11-27T10:00:00",
]  # fmt: skip
TEXT = "title: Größe\nhours: 24\nrows:\n  - a\n"
SAVED = [
    TEXT.encode("utf-8-sig"),
    b"\xff\xfe" + TEXT.encode("utf-16-le"),
    b"\xfe\xff" + TEXT.encode("utf-16-be"),
    TEXT.replace("\n", "\r\n").encode(),
    TEXT.replace("\n", "\r").encode(),  # an old Mac
    TEXT.replace("\n", "  \n").encode(),
]


def test_words_that_readers_take_for_different_things_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    for word in AMBIGUOUS:
        for text in (f"key: {word}", f"key: [{word}]", f"{word}: 1"):
            with pytest.raises(yaml.YAMLError):
                value(text)
        path.write_text(f"first: 1\nkey: {word}\n")
        with pytest.raises(FedshiftError) as error:
            read(path)
        assert error.value.where == f"{path}:2" and f"'{word}'" in error.value.what
        assert value(f"key: '{word}'") == {"key": word}


def test_other_words_are_read_as_they_look() -> None:
    looks = {
        "10": 10, "+1": 1, "-0.5": -0.5, "1e2": 100.0, "1e-3": 1e-3, ".5": 0.5, "true": True, "null": None, "~": None,
        "y": "y", "1.2.3": "1.2.3", "a:b": "a:b", "0o9": "0o9", "!!int 010": 10,
    }  # fmt: skip
    for word, meant in looks.items():
        assert value(f"key: {word}") == {"key": meant} and type(value(word)) is type(meant), word


@pytest.mark.parametrize("saved", SAVED)
def test_a_file_of_any_system_is_read(tmp_path: Path, saved: bytes) -> None:
    (tmp_path / "own.yaml").write_bytes(saved)
    assert read(tmp_path / "own.yaml") == {"title": "Größe", "hours": 24, "rows": ["a"]}


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_bytes(TEXT.encode("latin-1"))
    with pytest.raises(FedshiftError) as error:
        read(tmp_path / "own.yaml")
    assert error.value.where == str(tmp_path / "own.yaml") and error.value.cure


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_table_of_any_system_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes('id,text\r\nä,"b\r\nc"\r\n'.encode(encoding))
    assert read_rows(path) == [{"id": "ä", "text": "b\nc"}]


def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    """Domains may be called so."""
    odd = [
        *AMBIGUOUS, "1e3", "1", "0.5", "null", "~", "true", "<<", "- a", "a: b", "# a", "データ", "🦊", "'q' \"q\"", " a ", "", "*", "&a",
    ]  # fmt: skip
    declared = {"names": odd, "of": dict.fromkeys(odd, 1e-07), "truth": [True, None, 3, -2.5]}
    for style in (None, True, False):
        (tmp_path / "own.yaml").write_text(written(declared, default_flow_style=style), encoding="utf-8")
        assert read(tmp_path / "own.yaml") == declared
