"""`python -m kitedash` is the command `kitedash`."""

from kitedash.cli import main

main()
