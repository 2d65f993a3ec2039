"""A real Pravega and a real schema registry on this machine, for demos, tests and notebooks."""
