"""Data sets, one file each, found by file name."""
