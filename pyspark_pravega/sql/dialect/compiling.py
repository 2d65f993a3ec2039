"""SQLAlchemy's expressions as Spark's statements."""

from __future__ import annotations

from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.sql import compiler

KEYS_SINCE = (4, 1)
"""The Spark that has PRIMARY KEY in CREATE TABLE."""
_REGEXP_FLAGS = frozenset("imsx")


class PravegaCompiler(compiler.SQLCompiler):
    """Queries, INSERTs and changes. Spark takes what SQL's standard says, so little is its own."""

    def render_literal_value(self, value: Any, type_: Any, **kw: Any) -> str:
        """A literal: in Spark's a backslash stands before each quote and backslash (to Spark 4.0, '' means nothing)."""
        text = super().render_literal_value(value, type_, **kw).replace("\\", "\\\\")
        return "'" + text[1:-1].replace("''", "\\'") + "'" if text.startswith("'") else text

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET; one without the other, too."""
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)
        return text

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """`regexp_match`."""
        return f"{self.process(binary.left, **kw)} RLIKE {self._pattern(binary, **kw)}"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Its negation."""
        return f"NOT ({self.visit_regexp_match_op_binary(binary, operator, **kw)})"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """`regexp_replace`: all matches, as PostgreSQL's with the flag g."""
        pattern, replacement = binary.right.clauses
        flags = (binary.modifiers["flags"] or "").replace("g", "")
        pattern = self._flagged(self.process(pattern, **kw), flags)
        return f"regexp_replace({self.process(binary.left, **kw)}, {pattern}, {self.process(replacement, **kw)})"

    def visit_json_getitem_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """A field or an element of a column of JSON."""
        column, path = self.process(binary.left, **kw), self.process(binary.right, **kw)
        if isinstance(binary.type, types.JSON):
            return f"to_json(try_variant_get(parse_json({column}), {path}, 'variant'))"
        value = f"get_json_object({column}, {path})"
        if isinstance(binary.type, types.String):
            return value
        return f"CAST({value} AS {self.dialect.type_compiler_instance.process(binary.type)})"

    visit_json_path_getitem_op_binary = visit_json_getitem_op_binary

    def _pattern(self, binary: Any, **kw: Any) -> str:
        return self._flagged(self.process(binary.right, **kw), binary.modifiers["flags"] or "")

    def _flagged(self, pattern: str, flags: str) -> str:
        if not set(flags) <= _REGEXP_FLAGS:
            raise exc.CompileError(f"a pattern's flags must be of {', '.join(sorted(_REGEXP_FLAGS))}, not {flags!r}")
        return f"concat('(?{flags})', {pattern})" if flags else pattern


class PravegaDDLCompiler(compiler.DDLCompiler):
    """CREATE, ALTER, DROP."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """A column with its comment."""
        text = super().get_column_specification(column, **kw)
        return text if column.comment is None else f"{text} COMMENT {self._literal(column.comment)}"

    def visit_primary_key_constraint(self, constraint: Any, **kw: Any) -> str:
        """A table's key; to a Spark without such a clause a property says it."""
        return "" if self._lacks_keys else super().visit_primary_key_constraint(constraint, **kw)

    def post_create_table(self, table: Any) -> str:
        """The table's comment, and its properties."""
        text = "" if table.comment is None else f" COMMENT {self._literal(table.comment)}"
        properties = dict(table.dialect_options["pravega"]["tblproperties"] or {})
        if self._lacks_keys and table.primary_key.columns:
            columns = (self.preparer.format_column(column) for column in table.primary_key.columns)
            properties.setdefault("primary-key", ", ".join(columns))
        if properties:
            pairs = (f"{self._literal(key)} = {self._literal(str(value))}" for key, value in properties.items())
            text += f" TBLPROPERTIES ({', '.join(pairs)})"
        return text

    def visit_set_column_comment(self, create: Any, **_: Any) -> str:
        """Another comment of a column."""
        return self._column_comment(create.element, create.element.comment)

    def visit_drop_column_comment(self, drop: Any, **_: Any) -> str:
        """None."""
        return self._column_comment(drop.element, "")

    def _column_comment(self, column: Any, comment: str) -> str:
        table = self.preparer.format_table(column.table)
        return (
            f"ALTER TABLE {table} ALTER COLUMN {self.preparer.format_column(column)} COMMENT {self._literal(comment)}"
        )

    @property
    def _lacks_keys(self) -> bool:
        """Whether the server's Spark has no PRIMARY KEY: 4.0. Without a server nobody knows, and it has."""
        return (getattr(self.dialect, "server_version_info", None) or KEYS_SINCE) < KEYS_SINCE

    def _literal(self, value: str) -> str:
        return self.sql_compiler.render_literal_value(value, types.String())
