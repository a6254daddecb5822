"""The two prime moduli of BLS12-381, from which every other constant is computed.

Source: https://www.ietf.org/archive/id/draft-irtf-cfrg-pairing-friendly-curves-11.html section 4.2.1
"""

from __future__ import annotations

P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
"""Modulus of the base field Fp, 381 bits."""

R = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
"""Modulus of the scalar field Fr and order of the groups, 255 bits."""
