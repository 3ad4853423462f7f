"""The results archive: what finished runs measured, in git, without their weights (docs/share-results.md)."""
