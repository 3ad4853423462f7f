"""Keyed randomness: every draw is named, so order, packing and resume cannot change it."""

from __future__ import annotations

import hashlib

import torch


def key(seed: int, purpose: str, *where: int | str) -> int:
    """A 63-bit seed for one purpose ("split", "start", "batches", "augment", "dropout", "participants",
    "method" and others) at one place.
    """
    text = "/".join(map(str, (seed, purpose, *where)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, *where: int | str) -> torch.Generator:
    """A CPU generator for one purpose at one place; the draws are the same on every device."""
    return torch.Generator().manual_seed(key(seed, purpose, *where))
