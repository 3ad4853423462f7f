"""What every room uses: errors, files, locks, downloads, the registry. Nothing here knows of runs."""
