"""Changes to a finished partition, one file each, found by file name."""
