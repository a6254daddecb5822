"""Timing logs: parse -> spans -> statistics, records only, in one direction."""
