"""Plays drawn cases: a traceback, something written outside, a wrong result or ten seconds of a processor is a finding.

python -m tests.fuzz.campaign [--count 10000] [--seed 0] [--kinds archive tree]

Findings are kept in tests/fuzz/found, and are tests from then on.
"""

import argparse
import json
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase

from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256
from tests.fuzz.plays import PLAYS, Ground
from tests.fuzz.strategies import CASES

FOUND = Path(__file__).with_name("found")
SECONDS = 10.0
# of 10,000 cases: what takes milliseconds is played more often than what takes a tenth of a second
SHARES = {"experiment": 20, "protocol": 8, "params": 20, "cluster": 20, "tree": 4, "archive": 15, "partition": 8}  # fmt: skip


@dataclass
class Played:
    """outcomes: how many cases were accepted, refused and found; findings: why, by case (JSON)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, str] = field(default_factory=dict)


def finding(kind: str, ground: Ground, case: Any) -> tuple[str, str]:
    """Play a case: "accepted", "refused" or "found", with the reason."""
    began = time.process_time()
    try:
        PLAYS[kind](ground, case)
        outcome, reason = "accepted", ""
    except FedshiftError:
        outcome, reason = "refused", ""
    except Exception:
        outcome, reason = "found", traceback.format_exc(limit=-6)
    if outcome != "found" and time.process_time() - began > SECONDS:
        outcome, reason = "found", f"it took {time.process_time() - began:.0f} s"
    return outcome, reason


def fuzz(kind: str, count: int, seed: int, top: Path) -> Played:
    """Play `count` cases of a kind, the same for the same seed."""
    played, ground = Played(), Ground(top)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )  # fmt: skip
    @hypothesis.given(case=CASES[kind])
    def play(case: Any) -> None:
        outcome, reason = finding(kind, ground, case)
        played.outcomes[outcome] += 1
        if reason:
            played.findings[json.dumps(case)] = reason

    play()
    return played


def keep(kind: str, played: Played) -> None:
    """Write findings as cases of the tests."""
    for case, reason in played.findings.items():
        value = {"kind": kind, "case": json.loads(case), "seen": reason.strip().splitlines()[-1]}
        (FOUND / f"{kind}-{sha256(case)[:8]}.json").write_text(json.dumps(value, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=sorted(PLAYS), default=list(PLAYS))
    chosen = parser.parse_args()
    total, failed = sum(SHARES[kind] for kind in chosen.kinds), 0
    print(f"{'kind':12} {'cases':>6} {'accepted':>9} {'refused':>8} {'found':>6} {'seconds':>8}")
    for kind in chosen.kinds:
        began = time.process_time()
        with tempfile.TemporaryDirectory(prefix="fuzz") as top:
            played = fuzz(kind, chosen.count * SHARES[kind] // total, chosen.seed, Path(top))
        keep(kind, played)
        counts = [played.outcomes[name] for name in ("accepted", "refused", "found")]
        failed += counts[2]
        print(f"{kind:12} {sum(counts):6} {counts[0]:9} {counts[1]:8} {counts[2]:6} {time.process_time() - began:8.0f}", flush=True)  # fmt: skip
        for reason, times in Counter(
            reason.strip().splitlines()[-1] for reason in played.findings.values()
        ).most_common():
            print(f"  {times} times: {reason[:200]}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
