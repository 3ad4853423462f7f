"""`python -m fedshift`: the same as the console script."""

from fedshift.cli import main

main()
