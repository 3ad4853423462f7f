"""Helpers for tests of methods, models and plug-ins: small federations and spies. Runs do not import it."""
