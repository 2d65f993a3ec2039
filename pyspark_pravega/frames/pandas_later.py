"""Keeps pyarrow from loading pandas in programs that don't use it.

Where pandas is installed, pyarrow (26.0) loads it when it makes its first value or array of Python's objects,
to know pandas' ones when it meets them. That takes 0.25 s of CPU and 50 MB of each process.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _Pandas(MetaPathFinder):
    """Hides pandas while pyarrow asks for it, which it does but once; tells pyarrow when another one loads it."""

    hidden = True

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        if self.hidden:
            raise ModuleNotFoundError("pyarrow doesn't need pandas yet", name=fullname)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_tell(module: ModuleType) -> None:
                load(module)
                _tell_pyarrow()

            spec.loader.exec_module = load_and_tell  # type: ignore[method-assign]
        return spec


def load_pandas_later() -> None:
    """Pandas is loaded when somebody imports it, and not before; from then on pyarrow knows its objects.

    It is for processes of this package. In one of a user's nothing is to be gained: pandas is mostly loaded there.
    """
    if "pandas" in sys.modules:
        return
    finder = _Pandas()
    sys.meta_path.insert(0, finder)
    # Now pyarrow asks.
    pa.scalar(0)
    finder.hidden = False


def _tell_pyarrow() -> None:
    """What needs pandas makes pyarrow ask again."""
    pa.table({}).to_pandas()
