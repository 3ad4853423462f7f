"""Results computed from finished runs: collected records, tables, figures and checks.

Nothing here trains a model. Only the columns of counted costs and layers build networks.
"""
