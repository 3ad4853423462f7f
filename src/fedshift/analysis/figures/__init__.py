"""Figures: one file each, found by name (fedshift.common.registry)."""
