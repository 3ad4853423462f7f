"""How strong the consistency term is: norms of the two gradients that a client's first step is the sum of.

A backward pass more: in the first 20 rounds, then in every tenth.
"""

from __future__ import annotations

from torch import Tensor

from fedshift.federation.client import Client

ROUNDS = 20


def begin(C: Client, term: Tensor) -> None:
    """Keep the gradient [P] of lambda L_con, a scalar, before the client's first step."""
    if C.steps or not (C.t < ROUNDS or C.t % 10 == 0):
        return
    with C.worker.passes.paused():
        C.network.backward(term, retain_graph=True)
    C.tmp.term_gradient = C.network.g.clone()


def log(C: Client, g: Tensor) -> None:
    """Log the norms of the task's gradient and of the term's; g [P] is their sum."""
    term = C.tmp.__dict__.pop("term_gradient", None)
    if term is not None:
        C.log("task_gradient", (g - term).norm())
        C.log("consistency_gradient", term.norm())
