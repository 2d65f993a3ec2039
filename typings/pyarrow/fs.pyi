"""What is used of `pyarrow.fs`."""

from collections.abc import Sequence

from pyarrow import NativeFile

class FileType:
    NotFound: FileType
    Unknown: FileType
    File: FileType
    Directory: FileType

class FileInfo:
    type: FileType
    path: str
    base_name: str
    size: int | None
    mtime_ns: int | None

class FileSelector:
    def __init__(self, base_dir: str, allow_not_found: bool = False, recursive: bool = False) -> None: ...

class FileSystem:
    @staticmethod
    def from_uri(uri: str) -> tuple[FileSystem, str]: ...
    def get_file_info(self, paths_or_selector: Sequence[str] | FileSelector) -> list[FileInfo]: ...
    def open_input_file(self, path: str) -> NativeFile: ...
    def open_output_stream(self, path: str) -> NativeFile: ...
    def delete_file(self, path: str) -> None: ...

class LocalFileSystem(FileSystem):
    def __init__(self) -> None: ...

class AwsStandardS3RetryStrategy:
    def __init__(self, max_attempts: int = 3) -> None: ...

class S3FileSystem(FileSystem):
    def __init__(
        self,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        anonymous: bool = False,
        role_arn: str | None = None,
        session_name: str | None = None,
        proxy_options: str | None = None,
        force_virtual_addressing: bool = False,
        region: str | None = None,
        endpoint_override: str | None = None,
        scheme: str | None = None,
        connect_timeout: float | None = None,
        request_timeout: float | None = None,
        retry_strategy: AwsStandardS3RetryStrategy = ...,
    ) -> None: ...
