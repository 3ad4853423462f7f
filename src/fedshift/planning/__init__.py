"""From experiments to jobs: every run once, what it costs, who trains it, where it stands. Nothing here trains."""
