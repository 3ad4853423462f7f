"""Changes to a finished division, one file each, found by file name."""
