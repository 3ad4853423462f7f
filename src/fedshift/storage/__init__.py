"""Where files lie and what they say: the workspace, a run's directory, a pack's stamp, published weights."""
