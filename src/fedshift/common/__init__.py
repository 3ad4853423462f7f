"""Shared parts of all packages: errors, files, locks, downloads, the registry. Nothing here depends
on runs.
"""
