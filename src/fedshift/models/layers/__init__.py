"""Layers with more than one user."""
