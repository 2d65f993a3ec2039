"""A jar of what the sandbox has beside Pravega's jars, before which it stands: classes of its own, and changed ones.

Its own ones are in `jvm/sandbox`. `loopback`, `properties` and `tokens` say what is changed. Pravega's jars are pinned
by their sums, so these are classes of few versions.
"""

from __future__ import annotations

import hashlib
import io
import struct
import tempfile
import zipfile
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.java import loopback, properties, tokens

_CHANGES = (
    ("pravega-controller", loopback.CLASS, loopback.on_loopback, "it can't be kept on loopback"),
    (
        "pravega-standalone",
        tokens.CLASS,
        lambda code: tokens.with_settings(properties.with_properties_last(code)),
        "tokens can't be set up",
    ),
)
"""Jar, class, how it is changed, and what else can't be done."""
OWN = Path(__file__).parents[2] / "jars" / "pyspark-pravega-sandbox.jar"
"""The sandbox's own classes; not there where the package was installed without its Java part."""


def class_jar(jars: Path, folder: Path) -> Path:
    """A jar of the sandbox's own classes and the changed ones; written where it isn't yet.

    It is the same file at each start of each sandbox, beside the jars that it belongs to: Java has an archive of
    classes (its option `-XX:SharedArchiveFile`) for files that stay the same, and for none where there are folders of
    classes.

    Args:
        jars: the folder of Pravega's jars.
        folder: where to write it when the cache, in which the jars are, takes no more files.

    Returns:
        The jar to put before the others on the class path.

    Raises:
        SandboxError: a class isn't the one expected.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as written:
        for name, changed, change, harm in _CHANGES:
            (jar,) = jars.glob(f"{name}-*.jar")
            with zipfile.ZipFile(jar) as classes:
                code = classes.read(changed)
            try:
                code = change(code)
            except (ValueError, LookupError, struct.error) as error:
                raise SandboxError(f"{changed} in {jar} isn't one of those that are known: {harm}") from error
            _write(written, changed, code)
        if OWN.exists():
            with zipfile.ZipFile(OWN) as own:
                for name in sorted(name for name in own.namelist() if name.endswith(".class")):
                    _write(written, name, own.read(name))
    whole = content.getvalue()
    # Another version of this package may change them otherwise, at the same time.
    name = f"{jars.name}-{hashlib.sha256(whole).hexdigest()[:12]}.jar"
    try:
        return _kept(jars.parent.with_name("changed") / name, whole)
    except OSError:
        return _kept(folder / "changed.jar", whole)


def _write(jar: zipfile.ZipFile, name: str, code: bytes) -> None:
    # With a date of its own, 1980, so that the bytes are always the same.
    jar.writestr(zipfile.ZipInfo(name), code)


def _kept(file: Path, content: bytes) -> Path:
    """A file with a content, whole at each moment; it isn't touched when it is there."""
    if not file.is_file() or file.read_bytes() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
            written.write(content)
        Path(written.name).chmod(0o644)
        Path(written.name).replace(file)
    return file
