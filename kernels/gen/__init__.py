"""Generators of source files: from the moduli to constants."""
