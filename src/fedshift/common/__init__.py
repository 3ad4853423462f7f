"""Shared parts: errors, files, locks, downloads, the registry. Nothing here depends on runs."""
