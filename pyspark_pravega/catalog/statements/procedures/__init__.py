"""What CALL does.

`calls` has the list of procedures (`described`), and those that are done at once. `copying`, `redelivering` and
`analyzing` have Spark do a part of their work, by statements of SQL (`running`), and `indexing` by tasks. It uses the
other statements.
"""

from pyspark_pravega.catalog.statements.procedures.calls import PROCEDURES, Procedures
from pyspark_pravega.catalog.statements.procedures.described import Parameter
from pyspark_pravega.catalog.statements.procedures.running import Caller, Reading, Statement, quoted

__all__ = ["PROCEDURES", "Caller", "Parameter", "Procedures", "Reading", "Statement", "quoted"]
