"""Images that a method makes from others before training, one file each, found by file name."""
