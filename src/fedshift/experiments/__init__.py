"""Experiment files and protocols: read, checked, and expanded to the specs of runs."""
