"""Data pipeline from raw images to clients' samples: fetch, verify, prepare, partition."""
