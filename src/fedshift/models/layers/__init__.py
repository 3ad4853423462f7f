"""Layers that several networks or methods use."""
