"""Shown: which of the models that a run tests on its clients selection, tables and MLflow look at.

A client's own model right after its local training, where the method keeps one; else the model that the server makes for it; else the
aggregated one. (FLGo's logger, by which FDSE's numbers were made, tests `client.model` where there is one, else the server's model.)
"""

from __future__ import annotations

from collections.abc import Collection

Tested = tuple[str, str]
OWN: Tested = ("personal", "post_train")
RECEIVED: Tested = ("personal", "post_agg")
COMMON: Tested = ("global", "post_agg")


def shown(tested: Collection[Tested]) -> Tested:
    """The first of OWN, RECEIVED and COMMON among the (model, stage) that were tested on clients; COMMON where none was."""
    return next((one for one in (OWN, RECEIVED) if one in tested), COMMON)
