"""Publish the records of runs in MLflow, while they are trained and afterwards (docs/share-results.md)."""

import os

# MLflow reads these when it is imported. A server that is away must be noticed within seconds, not after four
# minutes of retries. The client would also send `create_run` again after a timeout, although the server may
# have done it.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "1")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
