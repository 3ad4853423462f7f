"""Images by one word."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data.address import Address, address


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
