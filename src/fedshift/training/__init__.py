"""A run in its directory: one writer, several at once, what it ran on, what it kept, where it stands."""
