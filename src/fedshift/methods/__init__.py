"""Federated methods, one published method a file."""
