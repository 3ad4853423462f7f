"""From raw images to who holds which sample: fetch, verify, prepare, partition."""
