"""Configuring Spark's sessions and starting its SQL programs."""
