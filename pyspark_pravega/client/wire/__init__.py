"""The segment store's wire protocol: a core without sockets, and a blocking connection above it."""
