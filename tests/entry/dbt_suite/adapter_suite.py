"""dbt's own tests for adapters (dbt-tests-adapter), against `pravega-spark thriftserver`: `make dbt-suite`.

It runs in dbt's environment, apart from the other tests. Each class of dbt's is taken, except what `LEFT_OUT` names.
"""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dbt.tests.adapter
import pytest
import yaml

PACKAGE = Path(__file__).parents[3] / "dbt-pravega"


@pytest.fixture(scope="class")
def dbt_profile_target() -> dict[str, Any]:
    return {
        "type": "spark",
        "method": "thrift",
        "host": os.environ["DBT_SUITE_HOST"],
        "port": int(os.environ["DBT_SUITE_PORT"]),
        "user": "dbt",
        "threads": 2,
    }


@pytest.fixture(scope="class")
def dbt_project_yml(dbt_project_yml: dict[str, Any], project_root: Any) -> dict[str, Any]:
    """The project with the package `pravega`, as docs/dbt.md says."""
    shutil.copytree(PACKAGE, Path(project_root) / "dbt_packages" / "pravega")
    project = dbt_project_yml
    project["dispatch"] = [{"macro_namespace": "dbt", "search_order": [project["name"], "pravega", "dbt"]}]
    Path(project_root, "dbt_project.yml").write_text(yaml.safe_dump(project))
    return project


@pytest.fixture(scope="class")
def project_files(project_files: None, project_root: Any) -> None:
    table = "{% materialization table, adapter='spark' %}{{ return(pravega.materialization_table_spark()) }}{% endmaterialization %}"
    Path(project_root, "macros", "materializations.sql").write_text(table)


LEFT_OUT = {"functions", "materialized_view", "python_model", "catalog_integrations"}


def _classes() -> Iterator[tuple[str, type]]:
    """The classes that adapters derive their tests from, in the order of their files."""
    (root,) = map(Path, dbt.tests.adapter.__path__)
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root).with_suffix("").parts
        if path[0] in LEFT_OUT or path[-1] == "__init__":
            continue
        module = importlib.import_module(".".join(["dbt.tests.adapter", *path]))
        for name, one in inspect.getmembers(module, inspect.isclass):
            if one.__module__ == module.__name__ and not name.startswith("Test"):
                yield name, one


for _name, _base in _classes():
    if any(test.startswith("test") for test in dir(_base)):
        globals()["Test" + _name.removeprefix("Base")] = type("Test" + _name.removeprefix("Base"), (_base,), {})
