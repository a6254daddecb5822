"""The cuda backend: one NVIDIA device, driven through CuPy."""
