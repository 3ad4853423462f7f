"""Reported: which of the models that a run tests on its clients, and which of the clients' images, selection,
tables and MLflow look at.

A client's own model right after its local training, where the method keeps one; else the model that the
server makes for it; else the aggregated one. (FLGo's logger, by which FDSE's numbers were made, tests
`client.model` where there is one, else the server's model.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Tested = tuple[str, str]  # (model, stage), as records name them
LOCAL: Tested = ("personal", "post_train")  # each client's own model, right after its local training
PERSONALISED: Tested = ("personal", "post_agg")  # what the server, after aggregation, has for each client
GLOBAL: Tested = ("global", "post_agg")  # the aggregated model, one for all


def reported(tested: Collection[Tested]) -> Tested:
    """The first of LOCAL, PERSONALISED and GLOBAL that was tested on clients; GLOBAL where none was."""
    return next((choice for choice in (LOCAL, PERSONALISED) if choice in tested), GLOBAL)


def own_split(partition: Mapping[str, Any], test: int) -> str:
    """The split of the clients' images that `id` is measured on: "test", or "val" where the resolved
    `partition` declares no test part.

    test: test images of all clients, by which official lists without a test part are known. With a declared
    test part, a client without a test image has no value.
    """
    declared = bool(test) if partition["split"] == "official" else partition["fractions"][2] > 0
    return "test" if declared else "val"
