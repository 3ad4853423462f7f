"""Networks as ordered named stages, a neck and a head: one file per architecture."""
