"""A page as headless Chromium shows it: its text after all scripts, its console, and what it asked the network for."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image


@dataclass(frozen=True)
class Opened:
    """`requests`: addresses that the page asked for; Chromium's own (updates, spelling) have no page as their initiator."""

    dom: str
    console: list[str]
    requests: list[str]
    picture: Image.Image


def chromium() -> str:
    """The program; without it the test is skipped, or fails under FEDSHIFT_REQUIRE_CHROMIUM=1."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None and os.environ.get("FEDSHIFT_REQUIRE_CHROMIUM") == "1":
        pytest.fail("chromium is not on PATH, and FEDSHIFT_REQUIRE_CHROMIUM=1")
    return program or pytest.skip("chromium is not on PATH")


def browse(page: Path, folder: Path, height: int = 3600, query: str = "", dark: bool = False) -> Opened:
    """Open a file, `?` and a query behind its name, without any network."""
    program = chromium()
    folder.mkdir(parents=True, exist_ok=True)
    log, picture = folder / "net.json", folder / "page.png"
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr",
        "--hide-scrollbars", f"--window-size=1300,{height}", f"--user-data-dir={folder / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--log-net-log={log}", "--virtual-time-budget=10000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--screenshot={picture}", "--dump-dom", page.absolute().as_uri() + query,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=folder)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Opened(done.stdout, console, _requests(log), Image.open(picture).convert("RGB"))


def _requests(log: Path) -> list[str]:
    started = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    return [one["url"] for one in started if one.get("initiator", "not an origin") != "not an origin"]
