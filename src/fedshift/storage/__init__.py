"""Files of a project: the workspace, a run's directory, a pack's stamp, published weights."""
