"""The federated engine: it knows no method and no data set by name."""
