"""`python -m indubio`, the same as `indubio`."""

from indubio.cli import main

main()
