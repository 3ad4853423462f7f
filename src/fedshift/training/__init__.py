"""Training in a run's directory: assembled, trained, several at once; weights, summary, adaptation."""
