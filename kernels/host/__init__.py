"""The backend on CPU threads: the embedded default."""
