"""The results archive: what finished runs measured, in git, without their weights (docs/archive.md)."""
