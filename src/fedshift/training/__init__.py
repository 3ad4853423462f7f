"""Training in a run's directory: its lock, the runs of a pack at once, weights and summary, the machine, and
garbage.
"""
