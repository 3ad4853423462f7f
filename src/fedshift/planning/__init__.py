"""From experiments to jobs: every run once, what it costs, what its job asks for. Nothing here trains."""
