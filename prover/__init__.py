"""An instrumented Groth16 proving daemon over BLS12-381."""

__version__ = "0.1.0"
