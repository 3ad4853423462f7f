"""Images by one word."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Address, address


def test_a_data_set_and_its_release() -> None:
    assert address("digits") == Address("digits", "original", None)
    assert str(address("digits")) == "digits"
    assert str(Address("folder", "clinics")) == "folder:clinics"


def test_a_folder_of_the_users_own_is_called_like_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my clinics").mkdir()
    path = tmp_path / "my clinics"
    assert address(f"folder:{path}") == Address("folder", "my-clinics", path)
    monkeypatch.chdir(tmp_path)
    assert address("folder:my clinics").release == "my-clinics"
    assert address("folder:clinics") == Address("folder", "clinics", None)  # was fetched under this name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digts", "Did you mean 'digits'?"),
        ("digits:new", "unknown release 'new'"),
        ("folder", "Name it: folder:PATH."),
        ("folder:/no/such/tree", "there is no folder '/no/such/tree'"),
    ],
)
def test_mistakes_are_refused(text: str, message: str) -> None:
    with pytest.raises(FedshiftError, match=message.replace("?", r"\?")):
        address(text)


def test_a_tree_may_be_given_a_name(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert address(f"folder:mine={tmp_path}") == Address("folder", "mine", tmp_path)
    assert address(f"folder:{tmp_path}/a=b") == Address("folder", "a-b", tmp_path / "a=b")
    for name in ("a/b", "..", "x" * 101):
        with pytest.raises(FedshiftError, match=f"Name it: --data folder:NAME={tmp_path}"):
            address(f"folder:{name}={tmp_path}")


def test_a_path_may_begin_at_home_or_hold_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clinics").mkdir()
    (tmp_path / "~").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TREES", str(tmp_path))
    for text in ("~/clinics", "$TREES/clinics", "${TREES}/clinics", "clinics=~/clinics"):
        assert address(f"folder:{text}") == Address("folder", "clinics", tmp_path / "clinics")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedshiftError, match="there is no folder"):
        address("folder:$NOWHERE/clinics")


@pytest.mark.parametrize(
    ("folder", "name"),
    [("データ", "データ"), ("cafe\u0301", "caf"), ("данные 2", "2"), ("my été", "my-t"), ("🦊", None)],
)
def test_a_name_in_any_script(tmp_path: Path, folder: str, name: str | None) -> None:
    (tmp_path / folder).mkdir()
    if name:
        assert address(f"folder:{tmp_path / folder}").release == name
    else:
        with pytest.raises(FedshiftError, match="Name it: --data folder:NAME="):
            address(f"folder:{tmp_path / folder}")
