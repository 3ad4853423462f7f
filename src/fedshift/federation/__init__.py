"""The federated engine, independent of particular methods and data sets."""
