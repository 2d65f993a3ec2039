"""Where the lake's files lie, and how they are reached: in folders of this machine, or in buckets, by S3's protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    NotFoundError,
    PravegaError,
    UnavailableError,
    UnsupportedOperationError,
)
from pyspark_pravega.values import flag, seconds

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyarrow.fs import FileSystem

PREFIX = "lake."
WAREHOUSE = "warehouse"
_OF_FILES = ("s3.", "client.")
"""What names begin with that say how files are reached."""
_S3 = ("s3", "s3a", "s3n")
_TRIES = 5
_MOST_S = 3600.0
_DEFAULTS = {"s3.connect-timeout": "5", "s3.request-timeout": "20"}
_SECRETS = ("secret", "token", "password", "access-key")
_VARIABLES = "PYICEBERG_CATALOG__PRAVEGA__S3__..."
_REFUSED = ("access_denied", "access denied", "invalid_access_key", "invalid_client_token", "signature",
            "expired_token", "unrecognized_client", "http status 401", "http status 403",
            "missing_authentication")  # fmt: skip
_GONE = ("network_connection", "slow_down", "service_unavailable", "internal_failure", "request_timeout", "timeout",
         "timed out", "throttling", "http status 50", "curlcode")  # fmt: skip


def place_of(location: str) -> str:
    """A location in one spelling: a path of this machine, or `s3://bucket/key`.

    Args:
        location: a path, or a URI.

    Raises:
        UnsupportedOperationError: it is of another kind.
    """
    parts = urlsplit(location)
    if parts.scheme.lower() in _S3 and parts.netloc and "@" not in parts.netloc:
        # A key may hold what a URI has a meaning for.
        return f"s3://{location.partition('://')[2].rstrip('/')}"
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise UnsupportedOperationError(
            f'the lake can\'t be at "{parts.scheme}://{parts.netloc.rpartition("@")[2]}" yet: "{PREFIX}{WAREHOUSE}" '
            "must be a folder that all machines see by the same path, or s3://bucket/path"
        )
    return str(Path(unquote(parts.path) if parts.scheme else location).absolute())


def uri_of(place: str) -> str:
    """A place as Iceberg names it.

    Args:
        place: as `place_of` gives it.
    """
    return place if is_remote(place) else Path(place).as_uri()


def is_remote(place: str) -> bool:
    """Whether a place is in a bucket.

    Args:
        place: as `place_of` gives it.
    """
    return place.startswith("s3://")


def file_properties(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What of a configuration says how files are reached. It may hold credentials.

    Args:
        options: by names without `lake.`.
    """
    wanted = {name.lower(): text.strip() for name, text in options.items()}
    return tuple(
        sorted((n, text) for n, text in wanted.items() if text and (n.startswith(_OF_FILES) or n == WAREHOUSE))
    )


@dataclass(frozen=True)
class StoredFile:
    """A file as its folder tells of it."""

    path: str
    size: int
    changed_at: float
    """In s since 1970."""


@dataclass(frozen=True)
class Store:
    """Reaches the lake's files, on every machine. It holds credentials, and shows none."""

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Store:
        """A store by its properties, and what else is to be said of it.

        Args:
            properties: as pyiceberg names them, and `warehouse`.
        """
        known = {**_DEFAULTS, **dict(file_properties(properties))}
        for name in _DEFAULTS:
            # pyiceberg knows numbers only.
            known[name] = f"{seconds(PREFIX + name, known[name], most=_MOST_S):g}"
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint and "s3.endpoint" not in known:
            # Tasks run elsewhere.
            known["s3.endpoint"] = endpoint
        if not {"s3.region", "client.region"} & known.keys():
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            if region is None and "s3.endpoint" in known:
                # Others than Amazon's have one region, whatever its name is, and pyiceberg would ask Amazon.
                region = "us-east-1"
            if region is not None:
                known["s3.region"] = region
        return cls(tuple(sorted(known.items())))

    @contextmanager
    def parquet(self, path: str) -> Iterator[pq.ParquetFile]:
        """A Parquet file, to be read.

        Args:
            path: where it is.

        Raises:
            As `asking`.
        """
        # Who has no lake doesn't wait for it to be loaded.
        import pyarrow.parquet as pq

        if not is_remote(path):
            with self.asking(path), pq.ParquetFile(path, memory_map=True) as file:
                yield file
            return
        with (
            self.asking(path),
            self._files().open_input_file(_key(path)) as source,
            pq.ParquetFile(source, pre_buffer=True) as file,
        ):
            yield file

    def sink(self, path: str) -> pa.NativeFile:
        """A new file, to be written.

        Args:
            path: where it is to be.

        Raises:
            As `asking`.
        """
        if is_remote(path):
            with self.asking(path):
                return self._files().open_output_stream(_key(path))
        from pyarrow.fs import LocalFileSystem

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return LocalFileSystem().open_output_stream(path)

    def files(self, folder: str) -> list[StoredFile]:
        """The files in a folder; none where it isn't there.

        Args:
            folder: the folder.

        Raises:
            As `asking`.
        """
        if not is_remote(folder):
            paths = [path for path in Path(folder).iterdir() if path.is_file()] if Path(folder).is_dir() else []
            stats = [(path, path.stat()) for path in paths]
            return [StoredFile(str(path), stat.st_size, stat.st_mtime) for path, stat in stats]
        from pyarrow.fs import FileSelector, FileType

        with self.asking(folder):
            entries = self._files().get_file_info(FileSelector(_key(folder), allow_not_found=True))
        return [
            StoredFile(f"s3://{entry.path}", entry.size or 0, (entry.mtime_ns or 0) / 1e9)
            for entry in entries
            if entry.type == FileType.File
        ]

    def remove(self, path: str) -> None:
        """Remove a file, if it is there.

        Args:
            path: where it is.

        Raises:
            As `asking`.
        """
        if not is_remote(path):
            Path(path).unlink(missing_ok=True)
            return
        try:
            with self.asking(path):
                self._files().delete_file(_key(path))
        except NotFoundError:
            pass

    @contextmanager
    def asking(self, place: str) -> Iterator[None]:
        """Say what is wrong in words of the lake's: of a folder that a file isn't there, of a bucket all.

        Args:
            place: what it is asked for.

        Raises:
            UnavailableError: it doesn't answer.
            AuthenticationError: it refuses the credentials.
            NotFoundError: there is no such file.
            ConfigurationError: it can't be used, as there is no such bucket.
        """
        try:
            yield
        except OSError as error:
            if is_remote(place):
                plain = self._plainly(place, error)
            elif isinstance(error, FileNotFoundError):
                plain = NotFoundError(
                    f"{error.filename or place} isn't there: bring the lake's files back, or set {PREFIX}{WAREHOUSE} "
                    "to the folder where they are"
                )
            else:
                raise
        else:
            return
        raise plain

    def _plainly(self, place: str, error: OSError) -> PravegaError:
        reason = self.without_secrets(str(error).partition("\n")[0])
        properties = dict(self.properties)
        warehouse = properties.get(WAREHOUSE, "").replace("s3a://", "s3://").replace("s3n://", "s3://").rstrip("/")
        lake = warehouse if warehouse and place.startswith(warehouse) else "/".join(place.split("/")[:3])
        at = properties.get("s3.endpoint", "Amazon")
        low = reason.lower()
        if isinstance(error, PermissionError) or any(word in low for word in _REFUSED):
            return AuthenticationError(
                f"the lake {lake} refuses the credentials, or they may not do that: {reason}; set "
                f"{PREFIX}s3.access-key-id and {PREFIX}s3.secret-access-key (or {_VARIABLES})"
            )
        if isinstance(error, TimeoutError | ConnectionError) or any(word in low for word in _GONE):
            return UnavailableError(
                f"the lake {lake} doesn't answer at {at}: {reason}; try again later, or set {PREFIX}s3.endpoint to "
                f"where it is (or {_VARIABLES})"
            )
        if "bucket" in low and ("no_such_bucket" in low or "does not exist" in low or "not found" in low):
            return ConfigurationError(
                f"the lake {lake} isn't at {at}: {reason}; make the bucket, or set {PREFIX}{WAREHOUSE}, and "
                f"{PREFIX}s3.endpoint and {PREFIX}s3.region to where it is (or {_VARIABLES})"
            )
        if isinstance(error, FileNotFoundError) or "no_such_key" in low or "path does not exist" in low:
            return NotFoundError(
                f"{place} isn't at {at}: bring it back, or set {PREFIX}s3.endpoint to where it is (or {_VARIABLES})"
            )
        return ConfigurationError(
            f"the lake {lake} can't be used at {at}: {reason}; look at {PREFIX}{WAREHOUSE}, {PREFIX}s3.endpoint and "
            f"{PREFIX}s3.region (or {_VARIABLES})"
        )

    def without_secrets(self, text: str) -> str:
        """A text in which no credential stands.

        Args:
            text: what others say.
        """
        for name, value in self.properties:
            if any(word in name for word in _SECRETS):
                text = text.replace(value, "***")
        return text

    def _files(self) -> FileSystem:
        return _file_system(self, os.getpid())


# A forked process must not use its parent's connections: the process id is part of the key.
@lru_cache(maxsize=16)
def _file_system(store: Store, pid: int) -> FileSystem:
    del pid
    # Some builds of pyarrow don't have it.
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    properties = dict(store.properties)

    def of(name: str) -> str | None:
        return properties.get(f"s3.{name}") or properties.get(f"client.{name}")

    return S3FileSystem(
        endpoint_override=of("endpoint"),
        access_key=of("access-key-id"),
        secret_key=of("secret-access-key"),
        session_token=of("session-token"),
        region=of("region"),
        role_arn=of("role-arn"),
        session_name=of("role-session-name"),
        proxy_options=of("proxy-uri"),
        anonymous=flag(f"{PREFIX}s3.anonymous", of("anonymous") or "false"),
        force_virtual_addressing=flag(
            f"{PREFIX}s3.force-virtual-addressing", of("force-virtual-addressing") or "false"
        ),
        connect_timeout=float(properties["s3.connect-timeout"]),
        request_timeout=float(properties["s3.request-timeout"]),
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )


def _key(place: str) -> str:
    """Bucket and key of a place."""
    return place.removeprefix("s3://")
