"""Partition schemes, one file each, found by file name."""
