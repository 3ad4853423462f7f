"""Training in a run's directory: assemble, train, several at once; weights, summary, evaluation."""
