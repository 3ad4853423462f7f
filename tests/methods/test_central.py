"""Central training: tested on every client's held-out data. Its rounds: test_central_replay.py."""

from __future__ import annotations

from fedshift.testing.toys import SIZES, finish, method, small, spec


def test_it_is_tested_on_every_client_s_held_out_data() -> None:
    central = finish(small(spec(), method("central")))
    tested = [row for row in central.records.rows if row["split"] == "test" and row["metric"] == "loss"]
    assert {(row["client"], row["round"], row["model"], row["n"]) for row in tested} == {
        (k, t, "global", n) for k, (_, _, n) in enumerate(SIZES) for t in range(3)
    }
    assert central.state.visits == [2]
