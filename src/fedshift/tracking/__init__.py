"""MLflow: which values of runs it gets, and the follower that publishes them."""
