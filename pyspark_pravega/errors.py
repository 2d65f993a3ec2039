"""Every error this package raises, in one tree.

    PravegaError
      ConfigurationError          a setting, option or table property is wrong
      InvalidNameError            a scope, stream or table name can't be used
      UnavailableError            a server didn't answer in time, or the connection was lost
        ControllerUnavailableError, RegistryUnavailableError,
        SegmentStoreUnavailableError    NoAnswerError, WrongHostError
        DeadlineExceededError     the caller's own deadline is over
      OpenFilesError              this process may open no more files or connections
      AuthenticationError         a server refused the credentials
        TokenExpiredError         a delegation token is too old
      CertificateError            a server's certificate isn't trusted
      NotFoundError               ScopeNotFoundError, StreamNotFoundError, SegmentNotFoundError,
                                  KeyValueTableNotFoundError, ReaderGroupNotFoundError, GroupNotFoundError,
                                  SchemaNotFoundError, VersionNotFoundError, ViewNotFoundError
      AlreadyExistsError          ScopeExistsError, StreamExistsError, ViewExistsError
      ScopeNotEmptyError
      StreamSealedError, SegmentSealedError, SegmentTruncatedError
      InvalidStreamCutError       a stream cut isn't one of the stream, or a part of it doesn't exist
      DataLossError               events that a query has still to read are gone
      ConflictError               a conditional change lost against another one
      WriteConflictError          rows were to be replaced or changed that aren't those which the statement has read
      DuplicateKeyError           a statement would give a table two rows with one primary key
      TableChangedError           a table was dropped or replaced after a statement was planned
      TableBeingDroppedError      a DROP of the table is running, or was broken off
      TransactionError            a transaction can't be begun, written, or committed
        LeaseExpiredError         it was left alone for longer than its lease
        QueryTakenOverError       another driver writes this streaming query's epochs now
      OperationFailedError        a server refused a call for a reason of its own
        StreamNotSealedError, ScaleRefusedError
        UnclearAnswerError      its answer doesn't tell whether it was done; also an UnavailableError
          LostAnswerError       no answer came; also a ControllerUnavailableError
      WireError                   bytes that aren't the segment store's protocol
      SchemaError
        UnsupportedTypeError, IncompatibleSchemaError
        EventDecodeError, EventEncodeError
      UnsupportedOperationError   what a stream can't do
      SandboxError                the local servers couldn't be fetched, started or stopped

`condition` is the name under which Spark shows an error (`[PRAVEGA_STREAM_NOT_FOUND] ...`). `sqlstate` tells clients
that don't know these names what they can do: 40001, run it again; 08001, later; 28000, with other credentials.
Messages name the object, say what was expected, and what to do; they never hold credentials.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class PravegaError(Exception):
    """The root of the tree."""

    condition: ClassVar[str] = "PRAVEGA_ERROR"
    sqlstate: ClassVar[str] = "58000"


class ConfigurationError(PravegaError):
    """A setting, option or table property is unknown, malformed or contradictory."""

    condition = "PRAVEGA_INVALID_CONFIGURATION"
    sqlstate = "42616"


class InvalidNameError(PravegaError):
    """A name that Pravega can't hold, or that is reserved."""

    condition = "PRAVEGA_INVALID_NAME"
    sqlstate = "42602"


class UnavailableError(PravegaError):
    """A server didn't answer within the deadline, or the connection to it was lost."""

    condition = "PRAVEGA_UNAVAILABLE"
    sqlstate = "08001"
    gone: str = ""
    """What doesn't answer, such as `segment store 10.0.0.1:12345`; empty where that isn't known."""
    reason: str = ""
    """What its last attempt has met, in a few words."""
    since: float | None = None
    """Since when it hasn't, by `time.monotonic`."""
    patience: float | None = None
    """For how many seconds it is worth trying at most; None for as long as the caller likes."""


class ControllerUnavailableError(UnavailableError):
    """The Pravega controller didn't answer."""

    condition = "PRAVEGA_CONTROLLER_UNAVAILABLE"


class SegmentStoreUnavailableError(UnavailableError):
    """A Pravega segment store didn't answer, or closed the connection."""

    condition = "PRAVEGA_SEGMENT_STORE_UNAVAILABLE"


class NoAnswerError(SegmentStoreUnavailableError):
    """The segment store is there, but hasn't answered in time."""

    condition = "PRAVEGA_SEGMENT_STORE_NO_ANSWER"


class OpenFilesError(PravegaError):
    """This process, or this machine, has as many files and connections open as it may."""

    condition = "PRAVEGA_OPEN_FILES"
    sqlstate = "53000"


class WrongHostError(SegmentStoreUnavailableError):
    """Another segment store serves the segment.

    Args:
        message: what is wrong.
        host: `host:port` of the one that does; empty when it isn't known yet.
    """

    condition = "PRAVEGA_WRONG_SEGMENT_STORE"

    def __init__(self, message: str, host: str = "") -> None:
        super().__init__(message)
        self.host = host


class DeadlineExceededError(UnavailableError):
    """The deadline that the caller set is over."""

    condition = "PRAVEGA_DEADLINE_EXCEEDED"
    sqlstate = "HYT00"


class RegistryUnavailableError(UnavailableError):
    """The schema registry didn't answer."""

    condition = "PRAVEGA_SCHEMA_REGISTRY_UNAVAILABLE"


class AuthenticationError(PravegaError):
    """A server refused the credentials."""

    condition = "PRAVEGA_UNAUTHENTICATED"
    sqlstate = "28000"


class TokenExpiredError(AuthenticationError):
    """A delegation token is too old; a new one may do."""

    condition = "PRAVEGA_TOKEN_EXPIRED"


class CertificateError(PravegaError):
    """A server's certificate isn't trusted, or isn't made for the name that the server was reached by."""

    condition = "PRAVEGA_CERTIFICATE_REJECTED"
    sqlstate = "08001"


class NotFoundError(PravegaError):
    """Something named doesn't exist."""

    condition = "PRAVEGA_NOT_FOUND"
    sqlstate = "42704"


class ScopeNotFoundError(NotFoundError):
    """The scope doesn't exist."""

    condition = "PRAVEGA_SCOPE_NOT_FOUND"


class StreamNotFoundError(NotFoundError):
    """The stream doesn't exist."""

    condition = "PRAVEGA_STREAM_NOT_FOUND"
    sqlstate = "42P01"


class SegmentNotFoundError(NotFoundError):
    """The segment doesn't exist, or has been deleted."""

    condition = "PRAVEGA_SEGMENT_NOT_FOUND"


class KeyValueTableNotFoundError(NotFoundError):
    """The key-value table doesn't exist."""

    condition = "PRAVEGA_KEY_VALUE_TABLE_NOT_FOUND"
    sqlstate = "42P01"


class ReaderGroupNotFoundError(NotFoundError):
    """The reader group doesn't exist."""

    condition = "PRAVEGA_READER_GROUP_NOT_FOUND"


class GroupNotFoundError(NotFoundError):
    """The schema registry has no such group."""

    condition = "PRAVEGA_GROUP_NOT_FOUND"


class SchemaNotFoundError(NotFoundError):
    """The group holds no such schema, version or encoding."""

    condition = "PRAVEGA_SCHEMA_NOT_FOUND"


class VersionNotFoundError(NotFoundError):
    """The stream has no such version, named cut or commit of that time, or no longer."""

    condition = "PRAVEGA_VERSION_NOT_FOUND"


class ViewNotFoundError(NotFoundError):
    """The view doesn't exist."""

    condition = "PRAVEGA_VIEW_NOT_FOUND"
    sqlstate = "42P01"


class AlreadyExistsError(PravegaError):
    """Something of that name exists already."""

    condition = "PRAVEGA_ALREADY_EXISTS"
    sqlstate = "42710"


class ScopeExistsError(AlreadyExistsError):
    """The scope exists already."""

    condition = "PRAVEGA_SCOPE_EXISTS"
    sqlstate = "42P06"


class StreamExistsError(AlreadyExistsError):
    """The stream exists already."""

    condition = "PRAVEGA_STREAM_EXISTS"
    sqlstate = "42P07"


class ViewExistsError(AlreadyExistsError):
    """A view or table of that name exists already."""

    condition = "PRAVEGA_VIEW_EXISTS"
    sqlstate = "42P07"


class ScopeNotEmptyError(PravegaError):
    """The scope still holds streams or key-value tables."""

    condition = "PRAVEGA_SCOPE_NOT_EMPTY"
    sqlstate = "2BP01"


class StreamSealedError(PravegaError):
    """The stream is sealed: it can be read and deleted, nothing else."""

    condition = "PRAVEGA_STREAM_SEALED"
    sqlstate = "55000"


class SegmentSealedError(PravegaError):
    """The segment is sealed: it takes no more events."""

    condition = "PRAVEGA_SEGMENT_SEALED"
    sqlstate = "55000"


class SegmentTruncatedError(PravegaError):
    """The offset lies before the segment's start: the events there are gone."""

    condition = "PRAVEGA_SEGMENT_TRUNCATED"
    sqlstate = "22000"


class InvalidStreamCutError(PravegaError):
    """A stream cut doesn't cut its stream: wrong segments, gaps, or offsets beyond a segment's end."""

    condition = "PRAVEGA_INVALID_STREAM_CUT"
    sqlstate = "22023"


class DataLossError(PravegaError):
    """Events that a query has still to read are gone: truncated, or with a stream that was deleted."""

    condition = "PRAVEGA_DATA_LOSS"
    sqlstate = "22000"


class ConflictError(PravegaError):
    """A conditional change found another value than the one it was based on."""

    condition = "PRAVEGA_CONFLICT"
    sqlstate = "40001"


class WriteConflictError(PravegaError):
    """Rows were to be replaced or changed that aren't those any more which the statement has read."""

    condition = "PRAVEGA_WRITE_CONFLICT"
    sqlstate = "40001"


class DuplicateKeyError(PravegaError):
    """A statement would give a table two rows with one primary key."""

    condition = "PRAVEGA_DUPLICATE_KEY"
    sqlstate = "23505"


class TableChangedError(PravegaError):
    """A table was dropped, or became another one, after a statement or a query was planned."""

    condition = "PRAVEGA_TABLE_CHANGED"
    sqlstate = "40001"


class TableBeingDroppedError(PravegaError):
    """A table's commit log is deleted, and its stream is still there: a DROP is running, or was broken off."""

    condition = "PRAVEGA_TABLE_BEING_DROPPED"
    sqlstate = "55000"


class TransactionError(PravegaError):
    """A transaction can't be begun, kept alive, written or committed."""

    condition = "PRAVEGA_TRANSACTION_FAILED"
    sqlstate = "40000"


class LeaseExpiredError(TransactionError):
    """A transaction was left alone for longer than its lease, so that the server has aborted it."""

    condition = "PRAVEGA_LEASE_EXPIRED"


class QueryTakenOverError(TransactionError):
    """Another driver has taken a streaming query over."""

    condition = "PRAVEGA_QUERY_TAKEN_OVER"


class OperationFailedError(PravegaError):
    """A server refused a call for a reason of its own."""

    condition = "PRAVEGA_OPERATION_FAILED"


class UnclearAnswerError(OperationFailedError, UnavailableError):
    """A server says that a call failed, in a way that doesn't prove that nothing was done: as if no answer had come."""

    condition = "PRAVEGA_UNCLEAR_ANSWER"
    sqlstate = "08007"
    passes: bool = False
    """Whether it says that it lacks another server, so that a later call may succeed."""


class LostAnswerError(ControllerUnavailableError, UnclearAnswerError):
    """A call has reached the controller, and no answer came: it may be done or not."""

    condition = "PRAVEGA_CONTROLLER_ANSWER_LOST"
    sqlstate = "08007"


class StreamNotSealedError(OperationFailedError):
    """The stream must be sealed first."""

    condition = "PRAVEGA_STREAM_NOT_SEALED"
    sqlstate = "55000"


class ScaleRefusedError(OperationFailedError):
    """Segments can't be replaced as asked."""

    condition = "PRAVEGA_SCALE_REFUSED"
    sqlstate = "55000"


class WireError(PravegaError):
    """Bytes from a server that aren't the segment store's protocol."""

    condition = "PRAVEGA_PROTOCOL_ERROR"
    sqlstate = "08P01"


class SchemaError(PravegaError):
    """A schema, or an event and its schema, don't go together."""

    condition = "PRAVEGA_SCHEMA_ERROR"
    sqlstate = "42000"


class UnsupportedTypeError(SchemaError):
    """A column's type has no counterpart in the stream's format."""

    condition = "PRAVEGA_UNSUPPORTED_TYPE"
    sqlstate = "0A000"


class IncompatibleSchemaError(SchemaError):
    """The registry refused a schema under the group's compatibility policy."""

    condition = "PRAVEGA_INCOMPATIBLE_SCHEMA"


class EventDecodeError(SchemaError):
    """An event's bytes can't be decoded."""

    condition = "PRAVEGA_EVENT_DECODE_FAILED"
    sqlstate = "22000"


class EventEncodeError(SchemaError):
    """A row can't be encoded."""

    condition = "PRAVEGA_EVENT_ENCODE_FAILED"
    sqlstate = "22000"


class UnsupportedOperationError(PravegaError):
    """Something that a stream can't do."""

    condition = "PRAVEGA_UNSUPPORTED_OPERATION"
    sqlstate = "0A000"


class SandboxError(PravegaError):
    """The local servers couldn't be fetched, started or stopped."""

    condition = "PRAVEGA_SANDBOX_FAILED"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """A hint for an unknown word.

    Args:
        word: what was given.
        words: the words that would have been right.

    Returns:
        `; did you mean "x"?` for the nearest one, or the list of all when none is near.
    """
    spellings = {right.lower(): right for right in sorted(words)}
    near = difflib.get_close_matches(word.lower(), spellings, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{spellings[near[0]]}"?'
    return f"; known are: {', '.join(spellings.values())}"
