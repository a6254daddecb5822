"""Readers of the circom and snarkjs file formats: they check everything before they allocate."""
