"""Metrics: numbers computed from recorded statistics of predictions, one file each (docs/extend.md)."""
