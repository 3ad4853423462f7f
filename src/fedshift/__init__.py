"""fedshift: federated learning under domain shift, reproduced."""

__version__ = "0.1.0"
