"""SQLAlchemy's dialect `pravega`, for Spark's Thrift server, and what Alembic asks of it.

It needs `pip install 'pyspark-pravega[sqlalchemy]'`. An address is `pravega://user@host:port/namespace`.
"""

from importlib.util import find_spec

from pyspark_pravega.sql.dialect.dialect import PravegaDialect

if find_spec("alembic") is not None:
    # Alembic finds its part by this import.
    from pyspark_pravega.sql.dialect import migrations as migrations

__all__ = ["PravegaDialect"]
