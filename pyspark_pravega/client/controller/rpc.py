"""Calls to the controllers over gRPC: each with a deadline, tried again where that is safe, and what failures mean."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import Message

from pyspark_pravega import outages
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.deadlines import CONNECT_S, Limit, Retries
from pyspark_pravega.errors import (
    AuthenticationError,
    CertificateError,
    ControllerUnavailableError,
    LostAnswerError,
    NotFoundError,
    OperationFailedError,
    UnclearAnswerError,
    UnsupportedOperationError,
)
from pyspark_pravega.found import way_out
from pyspark_pravega.security import Credentials, Tls
from pyspark_pravega.settings import controller_addresses

_SERVICE = "/io.pravega.controller.stream.api.grpc.v1.ControllerService/"
_MAX_REPLY_BYTES = 64 << 20
_ONCE = frozenset({"createScope", "createStream", "createKeyValueTable", "scale"})
"""Methods whose answer is another one when they are done twice: once they may have arrived it is for the caller to try
again. A transaction that is begun twice is no harm: of the first one nobody knows, and its lease ends it."""
_LOST_CONNECTION = ("Socket closed", "Connection reset", "Broken pipe", "Stream removed")
"""gRPC's words for a connection that was made, and then lost."""
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""Calls that may have been done or not. Nobody here cancels one, so that was the controller."""
_UNCLEAR = (
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
)
"""Calls that may have been done or not, though there is an answer: the controller fails behind a part of its work, too,
as to tell its own event stream of a commit that it has noted. It also says so of what it refuses."""
_UNCLEAR_TRIES = 3
_WITHOUT_ITS_OWN = re.compile(
    r"ConnectionLoss|Session ?Expired|OperationTimeout|StoreConnection|Connection(Dropped|Failed)|Connection refused"
    r"|RetriesExhausted|ObjectClosed|has been closed|RejectedExecution|Could not find host|not (yet )?ready"
    r"|was \[(STOPPED|LATENT)\]|^/\w+/|table: _system/",
    re.IGNORECASE,
)
"""What the controller says in such an answer while ZooKeeper or a segment store is gone that it needs, or it ends: by
default only what it has asked them for, such as `/hostTxnIndex/...`. That passes, and is waited for."""
_NO_STORE = "Internal exception occurred"
"""What the controller says of an exception of any kind that it meets at once. Of where a segment is (getURI) it has
only one: no segment store is there that could have it, as when all of them are gone for longer than their sessions."""
_FIRST_ATTEMPT_S, _LONGEST_ATTEMPT_S = 5.0, 40.0
"""How long a call is waited for at first, and then twice as long: controllers answer within milliseconds, and one that
is frozen holds a call for as long as it is let, while another one may be well."""
_PING_S = 2.0
"""How long a controller may take to say that it is there."""
_WITHOUT = "ZooKeeper, or a segment store that it needs, doesn't answer it"
_BEING_CREATED = "State: CREATING"
"""What the controller says of a stream, or a key-value table, whose creation is under way: it has words for that, but
no status. It has done nothing then."""
_STARTING = '"this.eventHelper" is null'
"""What a controller that has just been started says for a second or two to calls about key-value tables. It has done
nothing then."""
_CONDITIONAL = frozenset({"noteTimestampFromWriter", "pingTransaction"})
"""Methods that the controller fails with FAILED_PRECONDITION when two calls change one thing at once. It has done
nothing then."""
_SINCE = {"listCompletedTransactions": "0.12"}
"""Methods that not all versions of Pravega from 0.11 on have, and the first one that has them."""

Reply = TypeVar("Reply", bound=Message)


class ControllerRpc:
    """The transport below `Controller`. Safe for use by several threads."""

    def __init__(
        self,
        uri: str,
        *,
        timeout: float,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        presumed: bool = False,
    ) -> None:
        """Connect lazily.

        Args:
            uri: `tcp://host:port` or `tls://host:port`; several controllers as `tcp://a:9090,b:9090`: when one doesn't
                answer, the next one is asked.
            timeout: how long a call is tried again where the caller sets no deadline, in seconds. An attempt takes 40
                at most, and no longer either.
            credentials: who asks, if authentication is on.
            tls: which servers to believe, for `tls:`.
            presumed: whether the address is right for sure, because others have reached a controller there.
        """
        self.uri = uri
        self.gone = f"the Pravega controller at {uri}"
        """How messages name it."""
        self.timeout = timeout
        self._credentials = credentials
        self._tls = (tls or Tls()) if uri.startswith("tls:") else None
        self._addresses = controller_addresses(uri)
        self._current = 0
        self._contact = outages.Contact(self.gone, (host for host, _ in self._addresses), known=presumed)
        self._channels: dict[int, grpc.Channel] = {}
        self._stubs: dict[tuple[int, str], Callable[..., Any]] = {}
        self._lock = threading.Lock()

    @property
    def has_answered(self) -> bool:
        """Whether a controller has ever answered a call, to this process or to one that this one has it from."""
        return self._contact.known

    @property
    def host(self) -> str:
        """The host of the controller that is asked now."""
        return self._addresses[self._current][0]

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            channels, self._channels, self._stubs = list(self._channels.values()), {}, {}
        for channel in channels:
            channel.close()

    def status(
        self,
        method: str,
        request: Message,
        *,
        missing: NotFoundError | None = None,
        look: Callable[[], None] | None = None,
    ) -> int:
        """Call a method whose answer is a status number; arguments as `call`."""
        return self.call(method, request, pb.StatusReply, missing=missing, look=look).status

    def call(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        *,
        missing: NotFoundError | None = None,
        look: Callable[[], None] | None = None,
    ) -> Reply:
        """Call a method.

        Args:
            method: its name in the controller's service.
            request: its request.
            reply: the class of its answer.
            missing: what to raise when the controller answers NOT_FOUND.
            look: is called before the call is made again that may be done; what it raises ends the call.

        Raises:
            ControllerUnavailableError: no controller answers in time.
            DeadlineExceededError: the caller's deadline is over.
            AuthenticationError: the credentials were refused.
            CertificateError: the controller's certificate is.
            UnsupportedOperationError: the controller is too old for the call.
            OperationFailedError: the call failed for another reason; an `UnclearAnswerError` where it may be done.
        """
        retries, begun = Retries(self.timeout), time.monotonic()
        metadata = (("authorization", self._credentials.authorization()),) if self._credentials else ()
        first_contact = Limit(min(self.timeout, outages.FIRST_CONTACT_S))
        patience, unclear = _FIRST_ATTEMPT_S, 0
        while True:
            current = self._current
            longest = retries.left if self.has_answered else first_contact.left
            try:
                timeout = Limit(self.timeout).cap(min(longest, patience))
                answer: Reply = self._stub(current, method, request, reply)(request, timeout=timeout, metadata=metadata)
            except grpc.RpcError as error:
                if self._lacks_tls(current, error):
                    raise ControllerUnavailableError(
                        f"the Pravega controller at {self.uri} wants TLS: write tls:// instead of tcp://"
                    ) from None
                if error.code() in _NO_ANSWER or error.code() in _UNCLEAR:
                    self._current = (current + 1) % len(self._addresses)
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and self._current == 0:
                    # Each controller has had as much time.
                    patience = min(2 * patience, _LONGEST_ATTEMPT_S)
                unclear += error.code() in _UNCLEAR
                may = self._may_try_again(method, error, retries.failures + 1, unclear)
                may &= self.has_answered or first_contact.left > 0
                if not may or not self.again(retries, begun, _WITHOUT if error.code() in _UNCLEAR else ""):
                    self._fail(method, error, missing, begun)
                may_be_done = not _never_sent(error)
            else:
                self._contact.heard()
                return answer
            if may_be_done and look is not None:
                look()

    def again(self, retries: Retries, begun: float, reason: str = "") -> bool:
        """Wait for the next attempt, in the name of the controllers that don't answer, or of what they say.

        Args:
            retries: decides.
            begun: when the first attempt was, by `time.monotonic`.
            reason: what an answer says that there is; empty where there is none.

        Returns:
            Whether to try again.
        """
        error = self._unavailable(f"the Pravega controller at {self.uri} is there, but {reason}", begun)
        if reason:
            # It answers others meanwhile: nobody would know when that is over.
            error.gone = ""
        try:
            raise error
        except ControllerUnavailableError:
            return retries.again()

    def _unavailable(
        self, message: str, begun: float, kind: type[ControllerUnavailableError] = ControllerUnavailableError
    ) -> ControllerUnavailableError:
        return self._contact.missed(kind(message), begun)

    def _lacks_tls(self, current: int, error: Any) -> bool:
        """Whether the controller has ended the connection because it expects TLS; those that have answered don't."""
        if self.has_answered or self._tls is not None:
            return False
        return any(word in (error.details() or "") for word in _LOST_CONNECTION) and _wants_tls(
            *self._addresses[current], min(Limit(self.timeout).left, CONNECT_S)
        )

    def _may_try_again(self, method: str, error: Any, tries: int, unclear: int) -> bool:
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION and method in _CONDITIONAL:
            return True
        details = error.details() or ""
        if _BEING_CREATED in details or _STARTING in details:
            return True
        if error.code() in _UNCLEAR:
            return method not in _ONCE and (unclear < _UNCLEAR_TRIES or _lacks_its_own(method, details))
        if error.code() not in _NO_ANSWER:
            return False
        if _is_about_certificates(details):
            return False
        if method in _ONCE and not _never_sent(error):
            return False
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            # It holds the call: another one may be well, or it is itself a little later.
            return True
        somebody_is_there = any(word in details for word in _LOST_CONNECTION)
        if self.has_answered or somebody_is_there:
            return True
        # What isn't found, or speaks something else, is a wrong address.
        is_worth_waiting = _never_sent(error) and self._contact.is_worth_waiting(refused=_is_refused(details))
        return is_worth_waiting or tries < len(self._addresses)

    def _stub(self, current: int, method: str, request: Message, reply: type[Message] | None) -> Callable[..., Any]:
        stub = self._stubs.get((current, method))
        if stub is None:
            with self._lock:
                if current not in self._channels:
                    self._channels[current] = self._connect(*self._addresses[current])
                stub = self._channels[current].unary_unary(
                    _SERVICE + method,
                    request_serializer=type(request).SerializeToString,
                    response_deserializer=None if reply is None else reply.FromString,
                )
                self._stubs[current, method] = stub
        return stub

    def _connect(self, host: str, port: int) -> grpc.Channel:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", _MAX_REPLY_BYTES),
            # A server that comes back is asked soon, whatever its absence was like.
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        if self._tls is None:
            return grpc.insecure_channel(address, options)
        seconds = min(self.timeout, CONNECT_S)
        if not self._tls.validate_hostname and (name := _certified_name(self._tls, host, port, seconds)):
            options.append(("grpc.ssl_target_name_override", name))
        trusted = grpc.ssl_channel_credentials(root_certificates=self._tls.root_certificates())
        return grpc.secure_channel(address, trusted, options)

    def _fail(self, method: str, error: Any, missing: NotFoundError | None, begun: float) -> NoReturn:
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.NOT_FOUND and missing is not None:
            raise missing from None
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            self._refused(method, denied=code is grpc.StatusCode.PERMISSION_DENIED)
        if _is_about_certificates(details):
            raise CertificateError(
                f"the certificate of the Pravega controller at {self.uri} isn't trusted: set tls-ca (or PRAVEGA_TLS_CA)"
                " to the PEM file of the authority that signed it, and use the host name that it was made for"
            ) from None
        if code in _NO_ANSWER:
            self._fail_without_answer(method, error, begun)
        if code is grpc.StatusCode.UNKNOWN and not details and self._credentials is not None:
            raise AuthenticationError(
                f"the Pravega controller at {self.uri} failed in {method} without a reason, as it does with "
                "credentials that it can't make sense of: check the token and its method"
            ) from None
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise UnsupportedOperationError(
                f"the Pravega controller at {self.uri} doesn't know {method}: Pravega {_SINCE.get(method, '0.11')} or "
                "newer is needed"
            ) from None
        if _STARTING in details:
            raise ControllerUnavailableError(
                f"the Pravega controller at {self.uri} has just been started, and isn't ready for {method} yet: "
                "try again later"
            ) from None
        if _BEING_CREATED in details:
            again = "delete it, and" if "KeyValueTable" in details else "the controller goes on with it when you"
            raise OperationFailedError(
                f"the Pravega controller at {self.uri} can't do {method} yet, what it is for is being created "
                f"({details}): try again later; if it stays so, {again} create it again"
            ) from None
        if code not in _UNCLEAR:
            raise OperationFailedError(
                f"the Pravega controller at {self.uri} failed in {method}: {code.name} {details}"
            ) from None
        if not _lacks_its_own(method, details):
            raise UnclearAnswerError(
                f"the Pravega controller at {self.uri} failed in {method}: {code.name} {details}"
            ) from None
        unclear = UnclearAnswerError(
            f"the Pravega controller at {self.uri} is there, but can't do {method} since {outages.clock(begun)}: "
            f"{_WITHOUT} ({code.name} {details})"
        )
        unclear.passes, unclear.since = True, begun
        raise unclear from None

    def _fail_without_answer(self, method: str, error: Any, begun: float) -> NoReturn:
        kind = LostAnswerError if method in _ONCE and not _never_sent(error) else ControllerUnavailableError
        if error.code() is grpc.StatusCode.CANCELLED:
            message = f"the Pravega controller at {self.uri} gave up the call of {method}: it may be overloaded; "
            raise self._unavailable(f"{message}try again later", begun, kind) from None
        if not self.has_answered:
            seconds = round(time.monotonic() - begun, 1)
            waited = f" within {seconds:g} s" if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED else ""
            message = (
                f"no Pravega controller answers at {self.uri}{waited}: "
                "check the address (option controller-uri, or PRAVEGA_CONTROLLER_URI) and that the server is up"
            )
            raise self._unavailable(f"{message}{way_out(controller_addresses(self.uri))}", begun, kind) from None
        since = outages.clock(begun)
        count = len(self._addresses)
        if any(self._is_there((self._current + further) % count) for further in range(count)):
            message = (
                f"the Pravega controller at {self.uri} is there, but has not done {method} since {since}: what it "
                "keeps about that lies with a segment store, which may be gone"
            )
        else:
            reason = "no answer" if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED else "it can't be reached"
            message = (
                f"no Pravega controller answers at {self.uri} since {since} ({reason}; {method}): it did before, so it "
                f"has died, hangs, or can't be reached{way_out(controller_addresses(self.uri))}"
            )
        raise self._unavailable(message, begun, kind) from None

    def _is_there(self, current: int) -> bool:
        """Whether a controller answers a question for which it needs nobody else."""
        try:
            # A standalone server never tells, a cluster's controllers do: what they say is nobody's business.
            self._stub(current, "getControllerServerList", pb.ScopeInfo(), None)(
                pb.ScopeInfo(), timeout=min(_PING_S, Limit(_PING_S).left)
            )
        except grpc.RpcError as error:
            # One that refuses is there, too.
            return error.code() not in _NO_ANSWER
        return True

    def _refused(self, method: str, *, denied: bool) -> NoReturn:
        if self._credentials is None:
            raise AuthenticationError(
                f"the Pravega controller at {self.uri} wants credentials for {method}: set username and password "
                "(or PRAVEGA_USERNAME and PRAVEGA_PASSWORD)"
            ) from None
        if denied:
            raise AuthenticationError(
                f"the user has no permission for {method} from the Pravega controller at {self.uri}"
            ) from None
        raise AuthenticationError(
            f"the Pravega controller at {self.uri} refused the credentials for {method}: check username and password, "
            "or the token"
        ) from None


def _lacks_its_own(method: str, details: str) -> bool:
    """Whether an answer tells of what the controller itself can't reach."""
    return _WITHOUT_ITS_OWN.search(details) is not None or (method == "getURI" and details == _NO_STORE)


def _never_sent(error: Any) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect" in (error.details() or "")


def _is_refused(details: str) -> bool:
    return "refused" in details


def _is_about_certificates(details: str) -> bool:
    return any(word in details for word in ("CERTIFICATE", "Hostname Verification", "not in peer certificate"))


def _wants_tls(host: str, port: int, timeout: float) -> bool:
    """Whether a server answers to the begin of TLS, with whatever certificate."""
    try:
        with (
            socket.create_connection((host, port), timeout) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLCertVerificationError:
        return True
    except OSError:
        return False


def _certified_name(tls: Tls, host: str, port: int, timeout: float) -> str | None:
    """A name that a server's certificate is made for.

    gRPC always compares names; who doesn't want that has to expect the name that is there. The certificate itself is
    checked all the same.

    Returns:
        None when the server can't be asked: the call to come will tell why.
    """
    try:
        with (
            socket.create_connection((host, port), timeout) as plain,
            tls.ssl_context().wrap_socket(plain, server_hostname=host) as secured,
        ):
            certificate: dict[str, Any] = dict(secured.getpeercert() or {})
    except OSError:
        return None
    names = [name for _, name in certificate.get("subjectAltName", ())]
    names += [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return str(names[0]) if names else None
