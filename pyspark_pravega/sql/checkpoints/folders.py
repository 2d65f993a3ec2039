"""Checkpoints of streaming queries, on this machine or wherever `pyarrow.fs` reaches: S3, Google, Azure, HDFS."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from pyarrow import ArrowException
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from pyspark_pravega.connector.stream import ChangesOffset, SourceOffset
from pyspark_pravega.errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")

_URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+):/")
_S3, _GOOGLE = ("s3", "s3a", "s3n"), ("gs", "gcs")
_OTHERS = ("abfs", "abfss", "hdfs", "viewfs")
_CONNECT_S, _REQUEST_S, _GOOGLE_S = 3.0, 5.0, 10
_HADOOP = "set JAVA_HOME, HADOOP_HOME, and CLASSPATH to what hadoop classpath --glob prints"
_NEEDED = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL if it isn't Amazon's",
    "g": "set GOOGLE_APPLICATION_CREDENTIALS",
    "abfs": "log in by az login, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
    "hdfs": _HADOOP,
    "viewfs": _HADOOP,
}
"""What a file system has to be told, by the beginning of its URLs."""


@dataclass(frozen=True)
class Folder:
    """A folder of a file system."""

    files: FileSystem
    path: str
    """In that file system."""
    url: str
    """As it was named, but without user, password and parameters."""

    @classmethod
    def parse(cls, text: str) -> Folder:
        """A folder by its name, as of Spark's option `checkpointLocation`.

        Args:
            text: a path on this machine, or a URL. One of S3 takes parameters: `?region=` and `?endpoint_override=`.

        Raises:
            ConfigurationError: there is no such file system, or it can't be used here.
        """
        kind = _URL.match(text)
        scheme = kind[1].lower() if kind else ""
        if scheme in ("", "file"):
            path = unquote(urlsplit(text).path) if scheme else text
            return cls(LocalFileSystem(), path, path)
        parts = urlsplit(text)
        # Azure has the container before the @.
        host = parts.netloc if scheme.startswith("abfs") else parts.netloc.rpartition("@")[2]
        shown = f"{scheme}://{host}{parts.path}".rstrip("/")
        if scheme not in (*_S3, *_GOOGLE, *_OTHERS):
            raise ConfigurationError(
                f"checkpoint {shown} can't be read: it must be a folder of this machine, or begin with s3a://, gs://, "
                "abfss://, hdfs:// or viewfs://"
            )
        if scheme in _S3:
            if "@" in parts.netloc:
                raise ConfigurationError(f"checkpoint {shown} must be named without a password: {_NEEDED['s3']}")
            given = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            files = _ask(shown, _s3, given)
            return cls(files, f"{parts.netloc}{unquote(parts.path)}".rstrip("/"), shown)
        if scheme in _GOOGLE:
            text += f"{'&' if parts.query else '?'}retry_limit_seconds={_GOOGLE_S}"
        files, path = _ask(shown, FileSystem.from_uri, text)
        return cls(files, path.rstrip("/"), shown)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, inner: str) -> Folder:
        return replace(self, path=f"{self.path.rstrip('/')}/{inner}", url=f"{self.url.rstrip('/')}/{inner}")

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(self.path).name

    def is_there(self) -> bool:
        """Whether it is there.

        Raises:
            ConfigurationError: it is a file, or the file system doesn't answer.
        """
        (info,) = self._info([self.path])
        if info.type == FileType.File:
            raise ConfigurationError(f"{self} is no folder: a checkpoint is one, as checkpointLocation names it")
        return info.type == FileType.Directory

    def is_checkpoint(self) -> bool:
        """Whether a streaming query has made it.

        Raises:
            ConfigurationError: the file system doesn't answer.
        """
        offsets, metadata = self._info([f"{self.path}/offsets", f"{self.path}/metadata"])
        return offsets.type == FileType.Directory or metadata.type == FileType.File

    def folders(self) -> list[Folder]:
        """The folders in it, by their names.

        Raises:
            ConfigurationError: the file system doesn't answer.
        """
        return [self / entry.base_name for entry in self._entries() if entry.type == FileType.Directory]

    def times(self) -> dict[str, float]:
        """The files in it, and when each was written, in s since 1970; none where it isn't there.

        Raises:
            ConfigurationError: the file system doesn't answer.
        """
        files = [entry for entry in self._entries() if entry.type == FileType.File]
        return {file.base_name: (file.mtime_ns or 0) / 1e9 for file in files}

    def read(self, file: str) -> str:
        """A file in it.

        Args:
            file: its name.

        Raises:
            ConfigurationError: it isn't there, or the file system doesn't answer.
        """

        def whole() -> str:
            with self.files.open_input_file(f"{self.path}/{file}") as opened:
                return opened.read().decode()

        return _ask(f"{self.url}/{file}", whole)

    def _info(self, paths: list[str]) -> list[FileInfo]:
        return _ask(self.url, self.files.get_file_info, paths)

    def _entries(self) -> list[FileInfo]:
        entries = _ask(self.url, self.files.get_file_info, FileSelector(self.path, allow_not_found=True))
        return sorted(entries, key=lambda entry: entry.base_name)


@dataclass(frozen=True, kw_only=True)
class Committed:
    """What a streaming query has committed of Pravega's streams."""

    batch: int
    """The number of its last micro-batch."""
    offsets: list[SourceOffset]
    """The end of that in each of its sources that are streams."""
    changes: list[ChangesOffset]
    """The end of that in each of its sources that are CHANGES of a table."""
    times: dict[int, float]
    """When micro-batches were committed, in s since 1970: those that the checkpoint still has."""


def _lacks(folder: Folder) -> str:
    """Why a folder is no checkpoint."""
    if not folder.is_there():
        return "it isn't there"
    inner = [one.name for one in folder.folders() if one.is_checkpoint()]
    return "it has no folder offsets" + (f"; {', '.join(inner)} in it may be meant" if inner else "")


def read_checkpoint(folder: Folder) -> Committed:
    """What a streaming query has committed of Pravega's streams.

    Args:
        folder: the query's checkpoint.

    Raises:
        ConfigurationError: it is no checkpoint, no batch has been committed, no Pravega stream is in it, or its file
            system doesn't answer.
    """
    committed = _batches(folder / "commits")
    if not committed:
        if not folder.is_checkpoint():
            raise ConfigurationError(f"{folder} is no checkpoint of a streaming query: {_lacks(folder)}")
        raise ConfigurationError(f"the query of checkpoint {folder} has committed no micro-batch yet")
    batch = max(committed.keys() & _batches(folder / "offsets").keys(), default=-1)
    if batch < 0:
        raise ConfigurationError(f"checkpoint {folder} lacks the offsets of the micro-batches that it has committed")
    # A version, a line of Spark's own, and then a line for each source.
    lines = (folder / "offsets").read(str(batch)).splitlines()[2:]
    offsets = [SourceOffset.from_json(line) for line in lines if _has(line, "streams")]
    changes = [ChangesOffset.from_json(line) for line in lines if _has(line, "changes")]
    if not offsets and not changes:
        raise ConfigurationError(f"the query of checkpoint {folder} reads no Pravega stream")
    return Committed(batch=batch, offsets=offsets, changes=changes, times=committed)


def _s3(given: dict[str, str]) -> FileSystem:
    # Some builds of pyarrow don't have it.
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    environment = os.environ
    return S3FileSystem(
        region=given.get("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        endpoint_override=given.get("endpoint_override")
        or environment.get("AWS_ENDPOINT_URL_S3")
        or environment.get("AWS_ENDPOINT_URL"),
        scheme=given.get("scheme"),
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=2),
    )


def _ask(url: str, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    try:
        return call(*arguments, **named)
    except (OSError, ArrowException, ImportError) as error:
        reason = str(error).partition("\n")[0]
    scheme = urlsplit(url).scheme
    needed = next((text for start, text in _NEEDED.items() if scheme.startswith(start)), "")
    raise ConfigurationError(f"checkpoint {url} can't be read: {reason}" + (f"; {needed}" if needed else ""))


def _batches(folder: Folder) -> dict[int, float]:
    return {int(name): at for name, at in folder.times().items() if name.isdecimal()}


def _has(line: str, what: str) -> bool:
    """Whether it is an offset of ours, of that kind."""
    try:
        content = json.loads(line)
    except ValueError:
        return False
    return isinstance(content, dict) and {"version", what} <= content.keys()
