"""The catalog process, which Spark's JVM talks to: it carries, and decides nothing.

`service` answers requests, as `protocol` says: it calls `methods` with what `parameters` makes of the request; their
answers are `messages` (made by `answers`).
Functions for Spark's workers travel as `pickles`, which open as `arrival` says, in workers that `spark.daemon`
makes. It uses `catalog.plans`, the catalog and all below.
"""
