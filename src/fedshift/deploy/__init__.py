"""Deployment: the trained network of a run, its predictions, and its export for use without fedshift."""
