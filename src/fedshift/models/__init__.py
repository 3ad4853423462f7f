"""Networks as ordered named stages, a feature and a head: one file per architecture."""
