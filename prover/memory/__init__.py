"""How much memory work needs, and how much there is."""
