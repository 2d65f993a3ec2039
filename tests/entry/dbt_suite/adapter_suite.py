"""dbt's own tests for adapters (dbt-tests-adapter), against `pravega-spark thriftserver`: `make dbt-suite`.

It runs in dbt's environment, apart from the other tests. Each class of dbt's is taken that says something about Spark:
`LEFT_OUT` names the others and why. `RED` is what fails, and has to: docs/internals/test-suite.md lists it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dbt.tests.adapter
import pytest
from dbt.tests.adapter.constraints import fixtures
from dbt.tests.adapter.constraints import test_constraints as constraints
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.adapter.simple_seed import seeds
from dbt.tests.adapter.simple_seed.test_seed import BaseSeedSpecificFormats
from dbt.tests.adapter.simple_snapshot import common as snapshot_statements
from dbt.tests.adapter.simple_snapshot import test_various_configs as snapshot_configs
from dbt.tests.adapter.unit_testing.test_types import BaseUnitTestingTypes
from dbt.tests.adapter.utils.data_types.test_type_float import BaseTypeFloat
from dbt.tests.adapter.utils.data_types.test_type_int import BaseTypeInt
from dbt.tests.adapter.utils.test_timestamps import BaseCurrentTimestamps
from dbt.tests.util import run_dbt, run_sql_with_adapter
from suite_project import *  # noqa: F403


class Merged:
    """dbt-spark merges rows only where a model says that it is of a format that it knows."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        merged = {"+file_format": "delta"}
        # These tests change seeds by UPDATE.
        seeds = {"+quote_columns": False, "+tblproperties": {"primary-key": "id"}}
        return {"models": {**merged, "+incremental_strategy": "merge"}, "snapshots": merged, "seeds": seeds}


class MergedModels:
    """The same for models only."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+file_format": "delta", "+incremental_strategy": "merge"}}


# Statements in the SQL of another database

_OTHER_WORDS = {
    r"\{database\}\.": "",
    r"\{\{ *target\.database *\}\}\.": "",
    r"TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    r"\bTEXT\b": "STRING",
    r"::text\b": "::string",
    # A column is added without a default, which earlier rows don't have.
    r" default 'dummy_value'": "",
    # Spark writes no texts into columns of dates and times.
    r"(?<=, )'(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)'": r"timestamp'\1'",
    r"(?<=values)(.*)'(\d{4}-\d\d-\d\d)'": r"\1date'\2'",
    # Snapshots that are described in YAML; those of a project, as `Merged`, may be of a test's own.
    r"\n( +)strategy: ": r"\n\1file_format: delta\n\1strategy: ",
}
_KEYS = ("test_scd_id", "dbt_scd_id", "id1", "id")
"""Of tables that those statements change: the first one that is a column."""
_CREATE = re.compile(r"(create table \S+ \((?:[^;]|\n)*\))\s*;", re.IGNORECASE)


def spark_sql(text: str) -> str:
    """dbt's own SQL, as Spark has it; the tables that it makes have a key, because it changes them."""
    for words, sparks in _OTHER_WORDS.items():
        text = re.sub(words, sparks, text)

    def with_key(create: re.Match[str]) -> str:
        if "tblproperties" in create[1]:
            # Modules take statements from each other: it was translated there.
            return create[0]
        key = next(name for name in _KEYS if re.search(rf"\b{name}\b", create[1]))
        return f"{create[1]} tblproperties ('primary-key' = '{key}');"

    return _CREATE.sub(with_key, text)


def _translate(module: ModuleType) -> None:
    for name, value in vars(module).items():
        if isinstance(value, str) and not name.startswith("__"):
            setattr(module, name, spark_sql(value))
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            setattr(module, name, [spark_sql(one) for one in value])


def _clone_with_key(project: Any, to_table: str, from_table: str, select: str, where: str = "1 = 1") -> None:
    schema = project.test_schema
    project.run_sql(f"drop table if exists {schema}.{to_table}")
    project.run_sql(
        f"create table {schema}.{to_table} tblproperties ('primary-key' = 'id') as "
        f"select {select} from {schema}.{from_table} where {where}"
    )


def _run_in_order(adapter: Any, text: str, fetch: str | None = None) -> Any:
    """dbt takes rows of a snapshot by their place: first those that were there first, by their id."""
    table = text[text.index("{schema}") :]
    numbered = f"select *, row_number() over (partition by id order by test_valid_from) as place from {table}"
    return run_sql_with_adapter(adapter, text.replace(table, f"({numbered}) order by place, id"), fetch)


snapshot_configs.run_sql_with_adapter = _run_in_order
snapshot_statements.clone_table = _clone_with_key


# Which classes

OTHERS_SQL = "is written in the SQL of another database"
LEFT_OUT = {
    "functions": "functions in JavaScript and in Python are of other databases",
    "materialized_view": "dbt-spark has no materialized views",
    "python_model": "Python models need a cluster of Databricks",
    "catalog_integrations": "is of other databases",
    "dbt_clone": "dbt-spark clones tables of Delta only",
    "caching": "looks for a database in each name, and dbt-spark has none",
    "sample_mode": "needs a column type of another database",
    "column_types": OTHERS_SQL,
    "aliases": OTHERS_SQL,
    "hooks": OTHERS_SQL,
    "catalog": "needs materialized views",
    "dbt_debug": "is for Postgres",
    "BaseDocsGenReferences": "dbt-spark's docs know no owner",
    "BaseDocsGenerate": "dbt-spark's docs know no owner",
    "BaseGetCatalogForSingleRelation": "dbt-spark has no catalog of one relation",
    "BasePersistDocs": "dbt-spark's docs show no comments; test_dbt.py asks Spark for them",
    "BasePersistDocsCommentOnQuotedColumn": "dbt-spark's docs show no comments",
    "BasePersistDocsColumnMissing": "dbt-spark's docs show no comments",
    "BaseContractSqlHeader": "its classes below it are taken",
    "BaseConstraintsColumnsEqual": "its classes below it are taken",
    "BaseIncrementalContractSqlHeader": OTHERS_SQL,
    "BaseTableContractSqlHeader": OTHERS_SQL,
    "BaseConstraintQuotedColumn": "compares the text of statements",
    "BaseConstraintsRuntimeDdlEnforcement": "compares the text of statements",
    "BaseIncrementalConstraintsRuntimeDdlEnforcement": "compares the text of statements",
    "BaseModelConstraintsRuntimeEnforcement": "compares the text of statements",
    "BaseShowDoesNotHandleDoubleLimit": "compares the words of another database",
    "BaseTestEmptySeedFlag": "is for a newer dbt",
    "BaseMetadataWithEmptyFlag": OTHERS_SQL,
    "MetadataWithEmptyFlag": OTHERS_SQL,
    "BaseEphemeralMulti": "compares the text of statements",
    "BaseEphemeralNested": "compares the text of statements",
    "EmptyModelsArentRunBase": "asks an information schema",
    "SimpleCopyBase": "needs materialized views",
    "BaseSimpleCopyUppercase": "is for Postgres",
    "BaseBasicSeedTests": OTHERS_SQL,
    "BaseSeedConfigFullRefreshOn": OTHERS_SQL,
    "BaseSeedConfigFullRefreshOff": OTHERS_SQL,
    "BaseSeedCustomSchema": OTHERS_SQL,
    "BaseSeedParsing": OTHERS_SQL,
    "BaseSimpleSeedWithBOM": OTHERS_SQL,
    "SeedUniqueDelimiterTestBase": OTHERS_SQL,
    "BaseSeedWithUniqueDelimiter": OTHERS_SQL,
    "BaseSeedWithWrongDelimiter": OTHERS_SQL,
    "BaseSeedWithEmptyDelimiter": OTHERS_SQL,
    "BaseSimpleSeedColumnOverride": OTHERS_SQL,
    "BaseCurrentTimestampAware": "Spark's current_timestamp() has no time zone: BaseCurrentTimestampNaive",
    "BaseEscapeSingleQuotesQuote": "Spark escapes by a backslash: BaseEscapeSingleQuotesBackslash",
    "BaseArrayUtils": "its classes below it are taken",
    "BaseDataTypeMacro": "its classes below it are taken",
    "BaseGetIntervalsBetween": "writes days as 09/01/2023",
    "BaseUnitTestQuotedReservedWordColumnNames": OTHERS_SQL,
    "BaseListagg": "dbt-spark orders nothing within listagg",
    "BaseIncrementalPredicates": "is of another strategy, delete+insert",
    "BaseIncrementalBadStrategy": "compares the words of another adapter",
}
RED = {
    "BaseMicrobatch": "microbatch replaces partitions, and streams have none",
    "grants": "a catalog of Spark has no GRANT: Pravega's own rights are the controller's",
}
MERGED = {"BaseMergeExcludeColumns", "BaseSnapshotCheckCols", "BaseSnapshotTimestamp"}
MERGED_FOLDERS = {"simple_snapshot"}
# Classes that others derive theirs from, of which the ones below are taken.
SPARK_HAS_ITS_OWN = {
    "BaseTableConstraintsColumnsEqual", "BaseViewConstraintsColumnsEqual", "BaseIncrementalConstraintsColumnsEqual",
    "BaseSeedSpecificFormats", "BaseConstraintsRollback", "BaseIncrementalConstraintsRollback",
    "BaseIncrementalForeignKeyConstraint", "BaseIncrementalUniqueKey",
    "BaseIncrementalOnSchemaChange", "BaseUnitTestingTypes", "BaseTypeFloat", "BaseTypeInt", "BaseCurrentTimestamps",
}  # fmt: skip
SAMPLE = {"BaseChangeRelationTypeValidator", "BaseSnapshotNewRecordDbtValidToCurrent"}
"""What examples/dbt doesn't do: it has seeds, views, tables, incremental models and generic tests of its own."""


def _classes() -> Iterator[tuple[str, str, type]]:
    """Folder, name and class of what adapters derive their tests from, in the order of their files."""
    (root,) = map(Path, dbt.tests.adapter.__path__)
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root).with_suffix("").parts
        if LEFT_OUT.get(path[0]) or path[-1] == "__init__":
            continue
        module = importlib.import_module(".".join(["dbt.tests.adapter", *path]))
        if path[0] in MERGED_FOLDERS or path[-1] == "test_incremental_unique_id":
            _translate(module)
        for name, one in inspect.getmembers(module, inspect.isclass):
            has_tests = any(test.startswith("test") for test in dir(one))
            if one.__module__ == module.__name__ and not name.startswith("Test") and has_tests:
                yield path[0], name, one


def _take() -> None:
    for folder, name, base in _classes():
        if name in LEFT_OUT or name in SPARK_HAS_ITS_OWN:
            continue
        reason = RED.get(name) or RED.get(folder)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        marks += [pytest.mark.sample] if name in SAMPLE else []
        own = "Test" + name.removeprefix("Base")
        # What a snapshot's test says of its project is kept.
        bases = (Merged, base) if name in MERGED else (base, Merged) if folder in MERGED_FOLDERS else (base,)
        globals()[own] = type(own, bases, {"pytestmark": marks})


_take()


# What is said otherwise on Spark


def spark_text(text: str) -> str:
    """A schema.yml for Spark: its types, and without keys, which no stream enforces."""
    return text.replace("data_type: text", "data_type: string").replace("- type: primary_key", "- type: unique")


class OnSpark:
    @pytest.fixture
    def string_type(self) -> str:
        return "STRING_TYPE"

    @pytest.fixture
    def int_type(self) -> str:
        return "INT_TYPE"

    @pytest.fixture
    def schema_string_type(self) -> str:
        return "STRING"

    @pytest.fixture
    def schema_int_type(self) -> str:
        return "INT"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "INT", "INT_TYPE"],
            ["'1'", "STRING", "STRING_TYPE"],
            ["true", "boolean", "BOOLEAN_TYPE"],
            ["cast('2019-01-01' as date)", "date", "DATE_TYPE"],
            ["cast('2019-01-01' as timestamp)", "timestamp", "TIMESTAMP_TYPE"],
            ["cast(1.0 AS DECIMAL(4, 2))", "decimal(4, 2)", "DECIMAL_TYPE"],
        ]


class TestTableConstraintsColumnsEqual(OnSpark, constraints.BaseTableConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model_wrong_order.sql": fixtures.my_model_wrong_order_sql,
            "my_model_wrong_name.sql": fixtures.my_model_wrong_name_sql,
            "constraints_schema.yml": spark_text(fixtures.model_schema_yml),
        }


class TestViewConstraintsColumnsEqual(OnSpark, constraints.BaseViewConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model_wrong_order.sql": fixtures.my_model_view_wrong_order_sql,
            "my_model_wrong_name.sql": fixtures.my_model_view_wrong_name_sql,
            "constraints_schema.yml": spark_text(fixtures.model_schema_yml),
        }


class TestIncrementalConstraintsColumnsEqual(OnSpark, constraints.BaseIncrementalConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model_wrong_order.sql": fixtures.my_model_incremental_wrong_order_sql,
            "my_model_wrong_name.sql": fixtures.my_model_incremental_wrong_name_sql,
            "constraints_schema.yml": spark_text(fixtures.model_schema_yml),
        }


class Refused:
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["id is not null"]

    def assert_expected_error_messages(self, error_message: str, expected_error_messages: list[str]) -> None:
        assert expected_error_messages[0] in error_message.replace("`", "").lower()


@pytest.mark.sample
class TestConstraintsRollback(Refused, constraints.BaseConstraintsRollback):
    """A row that breaks a constraint leaves the rows of before."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model.sql": fixtures.my_model_sql,
            "constraints_schema.yml": spark_text(fixtures.model_schema_yml),
        }


class TestIncrementalConstraintsRollback(Refused, constraints.BaseIncrementalConstraintsRollback):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model.sql": fixtures.my_incremental_model_sql,
            "constraints_schema.yml": spark_text(fixtures.model_schema_yml),
        }


class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    def test_run_incremental_append_new_columns(self, project: Any) -> None:
        self.run_incremental_append_new_columns(project)

    @pytest.mark.xfail(reason="dbt-spark inserts columns that the query no longer has", strict=True)
    def test_run_incremental_append_new_columns_remove_one(self, project: Any) -> None:
        self.run_incremental_append_new_columns_remove_one(project)


class TestIncrementalUniqueKey(MergedModels, BaseIncrementalUniqueKey):
    """Rows of the model are merged by its key; its tables of before have rows that no table with a key can have."""

    WITHOUT_A_KEY = ("test__no_unique_keys", "test__empty_str_unique_key", "test__empty_unique_key_list")

    @pytest.fixture(autouse=True)
    def _red(self, request: pytest.FixtureRequest) -> None:
        if request.node.name not in self.WITHOUT_A_KEY:
            reason = "its models have several rows of a key, keys without a value, or a key that is no column"
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


class TestMergeKeys(MergedModels):
    """Models that are merged: by no key, so that rows are added, and by a key that is named twice."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        rows = "select id, {} as run from range(3)"
        model = (
            "{{{{ config(materialized='incremental'{key}) }}}} "
            "{{% if is_incremental() %}} " + rows.format(2) + " {{% else %}} " + rows.format(1) + " {{% endif %}}"
        )
        keys = {"unkeyed": "", "empty": ", unique_key=[]", "twice": ", unique_key=['id', 'ID']"}
        return {f"{name}.sql": model.format(key=key) for name, key in keys.items()}

    def test_merged_twice(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run"])
        for name, expected in (("unkeyed", (6, 9)), ("empty", (6, 9)), ("twice", (3, 6))):
            assert tuple(project.run_sql(f"select count(*), sum(run) from {{schema}}.{name}", "one")) == expected


class TestSpecialCharacters(BaseIncrementalOnSchemaChange):
    """Names that Avro doesn't allow, in columns that an incremental model adds."""

    SOURCE = "select id, 'v' as `select`, id * 111 as `field-with-dash` from range(1, 7)"

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        config = "{{ config(materialized='incremental', on_schema_change='append_new_columns') }}"
        return {
            "growing.sql": f"{config} {{% if is_incremental() %}} {self.SOURCE} where id > 3 {{% else %}} "
            "select id, 'v' as `select` from range(1, 4) {% endif %}",
        }

    def test_run_incremental_append_new_columns(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run"])
        rows = project.run_sql("select sum(id), count(`select`), sum(`field-with-dash`) from {schema}.growing", "one")
        assert tuple(rows) == (21, 6, 111 * (4 + 5 + 6))

    test_run_incremental_ignore = None
    test_run_incremental_sync_all_columns = None
    test_run_incremental_fail_on_schema_change = None


class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    """Without `seed.with.dots`, whose name dbt-spark doesn't quote. One has 20,000 rows."""

    @pytest.fixture(scope="class")
    def seeds(self, test_data_dir: Path) -> dict[str, str]:
        big = self._make_big_seed(test_data_dir).read_text()
        return {"big_seed.csv": big, "seed_unicode.csv": seeds.seed__unicode_csv}

    def test_simple_seed(self, project: Any) -> None:
        assert len(run_dbt(["seed"])) == 2
        assert tuple(project.run_sql("select count(*), sum(seed_id) from {schema}.big_seed", "one")) == (
            20_000,
            sum(range(20_000)),
        )


class TestUnitTestingTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "1"],
            ["2.0", "2.0"],
            ["'12345'", "12345"],
            ["'string'", "string"],
            ["true", "true"],
            ["date '2011-11-11'", "2011-11-11"],
            ["timestamp '2013-11-03 00:00:00-0'", "2013-11-03 00:00:00-0"],
            ["array(1, 2, 3)", "'array(1, 2, 3)'"],
            ["map('10', 't', '15', NULL)", """'map("10", "t", "15", NULL)'"""],
            ['named_struct("a", 1, "b", 2)', """'named_struct("a", 1, "b", 2)'"""],
        ]


def column_type(name: str) -> str:
    return f"version: 2\nseeds:\n  - name: expected\n    config:\n      column_types:\n        {name}_col: {name}\n"


class TestTypeFloat(BaseTypeFloat):
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"expected.csv": "float_col\n1.2345\n", "expected.yml": column_type("float")}


class TestTypeInt(BaseTypeInt):
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"expected.csv": "int_col\n12345678\n", "expected.yml": column_type("int")}


class TestCurrentTimestamps(BaseCurrentTimestamps):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"get_current_timestamp.sql": "select {{ current_timestamp() }} as current_timestamp"}

    @pytest.fixture(scope="class")
    def expected_schema(self) -> dict[str, str]:
        return {"current_timestamp": "timestamp"}

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return "select current_timestamp() as current_timestamp"
