"""MLflow: what is shown of runs, and the follower that publishes it."""
