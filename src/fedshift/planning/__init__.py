"""From experiments to jobs: every run once, its costs, and the resources of its job. Nothing here trains."""
