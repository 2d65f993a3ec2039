"""The projects that dbt's tests make: they have the package `pravega`, and run against the Thrift server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.fixtures import project as projects
from dbt.tests.util import run_sql_with_adapter

__all__ = ["dbt_profile_target", "dbt_project_yml", "project_files", "test_data_dir"]

PACKAGE = Path(__file__).parents[3] / "dbt-pravega"
MATERIALIZATIONS = PACKAGE.parent / "examples" / "dbt" / "macros" / "materializations.sql"


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
    shutil.copy(MATERIALIZATIONS, Path(project_root) / "macros")


@pytest.fixture(scope="class")
def test_data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a test of dbt's makes by itself."""
    return tmp_path_factory.mktemp("made") / "data"


def run_one_by_one(project: Any, text: str, fetch: str | None = None) -> Any:
    """Spark takes one statement at a time; returns what the last one gives."""
    results = [run_sql_with_adapter(project.adapter, one, fetch) for one in text.split(";") if one.strip()]
    return results[-1] if results else None


projects.TestProjInfo.run_sql = run_one_by_one
