"""YAML that people write: each word means one thing, whichever system and editor saved the file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_rows
from fedshift.common.yaml_file import read, value, written

AMBIGUOUS = [
    "24:00",
    "1:30",
    "1:30.5",
    "-1:30",
    "010",
    "-010",
    "08",
    "0100",
    "0x10",
    "0o17",
    "0b11",
    "1_000",
    "1_000.5",
    "yes",
    "No",
    "ON",
    "off",
    "=",
    "2026-11-27",
    "2026-11-27T10:00:00",
]
TEXT = "title: Größe\nhours: 24\nrows:\n  - a\n"
SAVED = {
    "UTF-8 with a byte-order mark": TEXT.encode("utf-8-sig"),
    "UTF-16, little end first": b"\xff\xfe" + TEXT.encode("utf-16-le"),
    "UTF-16, big end first": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "Windows": TEXT.replace("\n", "\r\n").encode(),
    "an old Mac": TEXT.replace("\n", "\r").encode(),
    "blanks at the ends": TEXT.replace("\n", "  \n").encode(),
}


@pytest.mark.parametrize("word", AMBIGUOUS)
def test_a_word_that_readers_take_for_different_things_is_refused(tmp_path: Path, word: str) -> None:
    for text in (f"key: {word}", f"key: [{word}]", f"{word}: 1"):
        with pytest.raises(yaml.YAMLError, match="several meanings"):
            value(text)
    path = tmp_path / "own.yaml"
    path.write_text(f"first: 1\nkey: {word}\n")
    with pytest.raises(FedshiftError) as error:
        read(path)
    assert error.value.where == f"{path}:2" and f"'{word}'" in error.value.what
    assert value(f"key: '{word}'") == {"key": word}


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("10", 10), ("+1", 1), ("-0.5", -0.5), ("1e2", 100.0), ("1e-3", 1e-3), (".5", 0.5), ("true", True), ("null", None),
        ("~", None), ("y", "y"), ("1.2.3", "1.2.3"), ("a:b", "a:b"), ("0o9", "0o9"), ("!!int 010", 10),
    ],
)  # fmt: skip
def test_other_words_are_read_as_they_look(word: str, meant: object) -> None:
    assert value(f"key: {word}") == {"key": meant} and type(value(word)) is type(meant)


@pytest.mark.parametrize("saved", SAVED)
def test_a_file_of_any_system_is_read(tmp_path: Path, saved: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(SAVED[saved])
    assert read(path) == {"title": "Größe", "hours": 24, "rows": ["a"]}


@pytest.mark.parametrize(
    "data", [TEXT.encode("latin-1"), TEXT.encode("utf-16-le")], ids=["Latin-1", "no mark"]
)
def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(data)
    with pytest.raises(FedshiftError, match=r"own\.yaml: is not UTF-8.*\n.*Save it as UTF-8"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_table_of_any_system_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes('id,text\r\nä,"b\r\nc"\r\n'.encode(encoding))
    assert read_rows(path) == [{"id": "ä", "text": "b\nc"}]


def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    """Domains may be called so."""
    odd = [
        *AMBIGUOUS,
        "1e3",
        "1",
        "0.5",
        "null",
        "~",
        "true",
        "<<",
        "- a",
        "a: b",
        "# a",
        "データ",
        "🦊",
        "'q' \"q\"",
        " a ",
        "",
        "*",
        "&a",
    ]
    declared = {"names": odd, "of": dict.fromkeys(odd, 1e-07), "truth": [True, None, 3, -2.5]}
    for style in (None, True, False):
        (tmp_path / "own.yaml").write_text(written(declared, default_flow_style=style), encoding="utf-8")
        assert read(tmp_path / "own.yaml") == declared
