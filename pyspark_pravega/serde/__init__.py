"""Events and Arrow batches: framing, formats and type mapping. Knows nothing of the network."""
