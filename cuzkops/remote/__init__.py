"""The way to a host: connections, scripts, probes, transfers and the lock."""
