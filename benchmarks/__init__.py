"""How fast this package is beside the official Java client."""
