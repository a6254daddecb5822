"""BLS12-381 fields, curves, NTT, MSM and sparse products: two backends behind one interface."""
