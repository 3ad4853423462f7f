"""What is computed from finished runs: collected records, tables, figures and checks. Nothing here trains;
costs alone builds networks, to count them.
"""
