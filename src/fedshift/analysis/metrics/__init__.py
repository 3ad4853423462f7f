"""Metrics: numbers that are computed from recorded statistics of predictions, one file each
(docs/extend.md).
"""
