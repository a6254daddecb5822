"""Build, ship, restart and measure GPU provers on remote hosts."""

__version__ = "0.1.0"
