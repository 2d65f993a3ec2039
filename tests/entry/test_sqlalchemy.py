"""SQLAlchemy, pandas and Alembic at the Thrift server, by the dialect `pravega`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import pandas
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from entry_tools import ThriftServer
from sqlalchemy import Column, Date, Engine, MetaData, String, Table, cast, insert, literal, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(4, whole=True)]

ENV = """
from alembic import context
from sqlalchemy import create_engine
engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection)
    context.run_migrations()
engine.dispose()
"""
MIGRATIONS = {
    "a1": (None, "op.create_table('m', sa.Column('id', sa.BigInteger, primary_key=True))", "op.drop_table('m')"),
    "b2": ("a1", "op.add_column('m', sa.Column('name', sa.String, comment='who'))", "op.drop_column('m', 'name')"),
}


@pytest.fixture
def engine(thrift: ThriftServer, scope: str) -> Iterator[Engine]:
    """Of an empty namespace."""
    host, port = thrift.address
    address = f"pravega://ann@{host}:{port}"
    first = sqlalchemy.create_engine(f"{address}/default")
    with first.connect() as connection:
        connection.execute(text(f"CREATE NAMESPACE IF NOT EXISTS `{scope}`"))
    engine = sqlalchemy.create_engine(f"{address}/{scope}")
    yield engine
    engine.dispose()
    with first.connect() as connection:
        connection.execute(text(f"DROP NAMESPACE `{scope}` CASCADE"))
    first.dispose()


@pytest.mark.since_spark("4.2")
def test_sqlalchemy_and_pandas(thrift: ThriftServer) -> None:
    host, port = thrift.address
    engine = sqlalchemy.create_engine(f"pravega://ann@{host}:{port}/default")
    rows = pandas.DataFrame(
        {
            "id": [1, 2],
            "name": ["ann", "b'ob"],
            "price": [Decimal("1.25"), None],
            "share": [0.1, 1e300],
            "at": pandas.to_datetime(["2026-01-01 01:02:03.456789", "2026-01-02 00:00:00.500000"]),
            "day": [date(2026, 1, 1), date(1912, 6, 23)],
            "paid": [True, False],
            "photo": [b"\xff\x00'", b""],
        }
    )
    columns: Any = {"price": sqlalchemy.Numeric(10, 2), "day": sqlalchemy.Date, "photo": sqlalchemy.LargeBinary}
    try:
        with engine.connect() as connection:
            for statement in (
                "CREATE NAMESPACE panda",
                "CREATE TABLE panda.keyed (k INT COMMENT 'key', d DECIMAL(5,1)) CLUSTERED BY (k) INTO 2 BUCKETS",
                "CREATE VIEW panda.shown AS SELECT k FROM panda.keyed",
            ):
                connection.execute(sqlalchemy.text(statement))
        rows.to_sql("bought", engine, schema="panda", index=False, method="multi", dtype=columns)
        rows.to_sql("bought", engine, schema="panda", index=False, method="multi", dtype=columns, if_exists="append")
        inspector = sqlalchemy.inspect(engine)
        assert {"panda"} <= set(inspector.get_schema_names())
        assert sorted(inspector.get_table_names("panda")) == ["bought", "keyed"]
        assert inspector.get_view_names("panda") == ["shown"]
        assert [inspector.has_table(name, "panda") for name in ("keyed", "shown", "missing")] == [True, True, False]
        assert not inspector.has_table("keyed", "no_such_one")
        described = inspector.get_columns("keyed", "panda")
        keyed = [(column["name"], str(column["type"]), column["comment"]) for column in described]
        assert keyed == [("k", "INTEGER", "key"), ("d", "NUMERIC(5, 1)", None)]
        with pytest.raises(sqlalchemy.exc.NoSuchTableError):
            inspector.get_columns("missing", "panda")
        back = pandas.read_sql("SELECT DISTINCT * FROM panda.bought ORDER BY id", engine, coerce_float=False)
        # PyHive hands days on as texts.
        assert back.to_dict("records") == rows.assign(day=rows["day"].map(str)).to_dict("records")
        counted = pandas.read_sql(
            sqlalchemy.text("SELECT count(*) AS n FROM panda.bought WHERE id > :least"), engine, params={"least": 1}
        )
        assert counted["n"].tolist() == [2]
        reflected = sqlalchemy.Table("bought", sqlalchemy.MetaData(), schema="panda", autoload_with=engine)
        assert [column.name for column in reflected.columns] == list(rows.columns)
        days = pandas.read_sql(sqlalchemy.select(reflected.c.day).distinct(), engine)["day"].tolist()
        assert sorted(days) == sorted(rows["day"])
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("DROP NAMESPACE panda CASCADE"))
    finally:
        engine.dispose()


class _Base(DeclarativeBase):
    pass


class _Person(_Base):
    __tablename__ = "people"
    last: Mapped[str | None] = mapped_column()
    born: Mapped[date | None] = mapped_column()
    id: Mapped[int] = mapped_column(sqlalchemy.BigInteger, primary_key=True)
    first: Mapped[str | None] = mapped_column()


@pytest.mark.since_spark("4.1")
def test_values_land_in_the_columns_that_a_statement_names(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(
            text(
                "CREATE TABLE people (id BIGINT NOT NULL, first STRING, last STRING DEFAULT 'none', "
                "`odd ) name` STRING, born DATE, PRIMARY KEY (id))"
            )
        )
    days = {"born": Date}
    frame = pandas.DataFrame({"last": ["Lovelace"], "born": ["1815-12-10"], "first": ["Ada"], "id": [1]})
    frame.to_sql("people", engine, index=False, method="multi", if_exists="append", dtype=days)
    frame.assign(id=[2]).to_sql("people", engine, index=False, if_exists="append", dtype=days)
    people = Table("people", MetaData(), autoload_with=engine)
    odd = people.c["odd ) name"]
    with engine.connect() as connection:
        names = ["last", "id", "born"]
        turing = select(literal("Turing"), literal(3), cast(literal("1912-06-23"), Date))
        connection.execute(insert(people).from_select(names, turing, include_defaults=False))
        connection.execute(insert(people).values({odd: "x", "id": 4}))
        other = Table("people", MetaData(), Column("last", String), Column("first", String), Column("id", String))
        rows = [{"first": "Grace", "id": 100 + i, "last": "Hopper"} for i in range(50)]
        connection.execute(insert(other), rows)
        versions = connection.scalar(text("SELECT count(*) FROM `people$commits`"))
    # Rows of one `execute` are one commit.
    assert versions == 5
    with Session(engine) as session:
        session.add_all([_Person(id=6, first="Alan"), _Person(id=5, last="Liskov", first="Barbara")])
        session.commit()
        assert session.get_one(_Person, 1).born == date(1815, 12, 10)
    ada = {"id": 1, "first": "Ada", "last": "Lovelace", "odd ) name": None, "born": date(1815, 12, 10)}
    empty = dict.fromkeys(ada)
    wanted = [
        ada,
        {**ada, "id": 2},
        {**empty, "id": 3, "last": "Turing", "born": date(1912, 6, 23)},
        {**empty, "id": 4, "last": "none", "odd ) name": "x"},
        {**empty, "id": 5, "first": "Barbara", "last": "Liskov"},
        {**empty, "id": 6, "first": "Alan"},
        *({**empty, **row} for row in rows),
    ]
    with engine.connect() as connection:
        found = connection.execute(select(people).order_by(people.c.id)).mappings().all()
    assert [dict(row) for row in found] == wanted


@pytest.mark.since_spark("4.2")
def test_what_is_made_is_what_reflection_tells(engine: Engine, scope: str) -> None:
    made = MetaData()
    kept = Table(
        "kept",
        made,
        Column("my id", sqlalchemy.BigInteger, primary_key=True, comment="it's a \\ key"),
        Column("day", Date, nullable=False),
        Column("price", sqlalchemy.Numeric(5, 1), server_default=text("3.0")),
        Column("photo", sqlalchemy.LargeBinary),
        Column("facts", sqlalchemy.JSON),
        sqlalchemy.CheckConstraint("price > 0", name="positive"),
        comment="what's kept",
        pravega_tblproperties={"format": "json", "segments": 2},
    )
    Table("plain", made, Column("when", sqlalchemy.DateTime, nullable=False), Column("n", sqlalchemy.Integer))
    made.create_all(engine)
    with engine.connect() as connection:
        connection.execute(text("CREATE VIEW shown COMMENT 'of n' AS SELECT n FROM plain WHERE n > 1"))
    inspector = sqlalchemy.inspect(engine)
    assert inspector.default_schema_name == scope
    assert inspector.get_pk_constraint("kept") == {"constrained_columns": ["my id"], "name": "kept_pk"}
    assert inspector.get_pk_constraint("plain")["constrained_columns"] == []
    assert inspector.get_table_comment("kept") == {"text": "what's kept"}
    assert inspector.get_table_comment("shown") == {"text": "of n"}
    assert inspector.get_check_constraints("kept") == [{"name": "positive", "sqltext": "price > 0"}]
    assert inspector.get_view_definition("shown") == "SELECT n FROM plain WHERE n > 1"
    with pytest.raises(sqlalchemy.exc.NoSuchTableError, match="is a table"):
        inspector.get_view_definition("plain")
    for schema in (None, scope):
        columns = {column["name"]: column for column in inspector.get_columns("kept", schema)}
        assert [name for name, column in columns.items() if not column["nullable"]] == ["my id", "day"]
        assert (columns["my id"]["comment"], columns["price"]["default"]) == ("it's a \\ key", "3.0")
    with engine.connect() as connection:
        shown: dict[str, str] = {row[0]: row[1] for row in connection.execute(text("SHOW TBLPROPERTIES kept"))}
        assert (shown["format"], shown["segments"]) == ("json", "2")
        assert compare_metadata(MigrationContext.configure(connection), made) == []
        kept.comment = "other"
        connection.execute(sqlalchemy.schema.SetTableComment(kept))
        kept.c.day.comment = "a day"
        connection.execute(sqlalchemy.schema.SetColumnComment(kept.c.day))
        assert compare_metadata(MigrationContext.configure(connection), made) == []


def test_expressions_are_those_of_spark(engine: Engine) -> None:
    metadata = MetaData()
    t = Table("t", metadata, Column("n", sqlalchemy.Integer), Column("s", String), Column("j", sqlalchemy.JSON))
    metadata.create_all(engine)
    document = {"a": {"b": ["x", 2]}, "t": "text", "yes": True, "f.g": 1.5}
    rows = [{"n": i, "s": f"s{i}", "j": document if i else None} for i in range(5)]
    with engine.connect() as connection:
        connection.execute(insert(t), rows)
        two = t.c.n == 2
        for statement, wanted in (
            (select(t.c.n).order_by(t.c.n).offset(3), [3, 4]),
            (select(t.c.n).order_by(t.c.n).limit(2), [0, 1]),
            (select(t.c.n).order_by(t.c.n).limit(2).offset(1), [1, 2]),
            (select(t.c.n).where(t.c.s.regexp_match("^s[12]$")).order_by(t.c.n), [1, 2]),
            (select(t.c.n).where(~t.c.s.regexp_match("^S[12]$", flags="i")).order_by(t.c.n), [0, 3, 4]),
            (select(t.c.s.regexp_replace("s(.)", "$1!")).where(two), ["2!"]),
            (select(t.c.s + "!" + t.c.s).where(two), ["s2!s2"]),
            (select(t.c.n).where(t.c.s.is_distinct_from("s1")).order_by(t.c.n).limit(1), [0]),
            (select(t.c.j).where(two), [document]),
            (select(t.c.j["a"]).where(two), [document["a"]]),
            (select(t.c.j["t"]).where(two), ["text"]),
            (select(t.c.j[("a", "b", 0)]).where(two), ["x"]),
            (select(t.c.j["f.g"].as_float()).where(two), [1.5]),
            (select(t.c.j["t"].as_string()).where(two), ["text"]),
            (select(t.c.n).where(t.c.j["yes"].as_boolean()).order_by(t.c.n), [1, 2, 3, 4]),
            (select(cast(literal("2024-01-31"), Date)), [date(2024, 1, 31)]),
            (select(literal(datetime(2024, 1, 31, 1, 2, 3))), [datetime(2024, 1, 31, 1, 2, 3)]),
            (select(literal(Decimal("1.50"), sqlalchemy.Numeric(5, 2))), [Decimal("1.50")]),
            (select(literal("it's 100 % \\n `odd`")), ["it's 100 % \\n `odd`"]),
        ):
            assert list(connection.scalars(statement)) == wanted, str(statement)
        printed = select(literal("it's a \\n")).compile(engine, compile_kwargs={"literal_binds": True})
        assert connection.exec_driver_sql(str(printed)).scalar() == "it's a \\n"
    with pytest.raises(sqlalchemy.exc.CompileError, match="has no TIME"):
        Table("u", MetaData(), Column("t", sqlalchemy.Time)).create(engine)


def test_alembic_goes_up_and_down(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(ENV)
    for revision, (before, up, down) in MIGRATIONS.items():
        (tmp_path / "versions" / f"{revision}.py").write_text(
            f"import sqlalchemy as sa\nfrom alembic import op\nrevision, down_revision = {revision!r}, {before!r}\n"
            f"def upgrade():\n    {up}\ndef downgrade():\n    {down}\n"
        )
    config = alembic.config.Config()
    config.set_main_option("script_location", str(tmp_path))
    config.set_main_option("sqlalchemy.url", engine.url.render_as_string(hide_password=False))

    def now() -> tuple[list[str], list[str]]:
        with engine.connect() as connection:
            there = sqlalchemy.inspect(connection)
            columns = [column["name"] for column in there.get_columns("m")] if there.has_table("m") else []
            return list(connection.scalars(text("SELECT version_num FROM alembic_version"))), columns

    alembic.command.upgrade(config, "a1")
    assert now() == (["a1"], ["id"])
    with engine.connect() as connection:
        there = sqlalchemy.inspect(connection)
        assert sorted(there.get_table_names()) == ["alembic_version", "m"]
        assert there.get_view_names() == []
        keys = {table: there.get_pk_constraint(table)["constrained_columns"] for table in there.get_table_names()}
    assert keys == {"alembic_version": ["version_num"], "m": ["id"]}
    alembic.command.upgrade(config, "head")
    assert now() == (["b2"], ["id", "name"])
    alembic.command.downgrade(config, "a1")
    assert now() == (["a1"], ["id"])
    alembic.command.downgrade(config, "base")
    assert now() == ([], [])
