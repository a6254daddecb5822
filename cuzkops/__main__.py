"""``python -m cuzkops``."""

from cuzkops.cli import main

main()
