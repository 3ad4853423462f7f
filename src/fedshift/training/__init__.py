"""Training in a run's directory: assembled, trained, several at once, its weights and summary, adapted later."""
