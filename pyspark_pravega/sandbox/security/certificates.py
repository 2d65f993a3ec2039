"""Certificates of a sandbox's own authority, made anew for each one; its key never leaves this process's memory."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark_pravega.errors import SandboxError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)
_LIFETIME = 365 * _DAY


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A server's certificate, as PEM."""

    chain: bytes
    """The certificate, and the authority's after it."""
    key: bytes = field(repr=False)
    """Its private key, PKCS #8, not encrypted."""


class Authority:
    """Signs certificates that only who trusts `certificate` believes."""

    def __init__(self, name: str = "pyspark-pravega sandbox") -> None:
        """Make one.

        Args:
            name: its common name.

        Raises:
            SandboxError: the library for certificates isn't installed.
        """
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise SandboxError(
                "a sandbox with TLS makes certificates with the `cryptography` library, which isn't installed: "
                "pip install 'pyspark-pravega[sandbox]'"
            ) from None
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        usage = {"key_cert_sign": True, "crl_sign": True}
        self._certificate = self._sign(
            self._name, self._key.public_key(), usage, [(x509.BasicConstraints(ca=True, path_length=0), True)]
        )

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, as PEM: what clients are to trust."""
        return _pem(self._certificate)

    def issue(self, *names: str, expired: bool = False) -> Certificate:
        """Make a server's certificate.

        Args:
            names: the host names and IP addresses that the server is reached by.
            expired: make one whose time is over.

        Returns:
            The certificate with its key.
        """
        return self._issue(names, expired=expired)[0]

    def key_store(self, *names: str, password: str) -> bytes:
        """Make a certificate in the form that Java's own TLS reads, of a server that calls others with it, too.

        Pravega's ZooKeeper wants its clients' certificates.

        Args:
            names: as of `issue`.
            password: what the store is encrypted with.

        Returns:
            A PKCS #12 file; Java takes it for a JKS file as well.
        """
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        _, certificate, key = self._issue(names, client=True)
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"server", key, certificate, [self._certificate], encryption)

    def trust_store(self, *, password: str) -> bytes:
        """The authority's certificate in the form that Java's own TLS reads.

        Args:
            password: what the store is encrypted with.

        Returns:
            A PKCS #12 file.
        """
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        trusted = pkcs12.PKCS12Certificate(self._certificate, b"sandbox")
        return pkcs12.serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))

    def _issue(
        self, names: tuple[str, ...], *, expired: bool = False, client: bool = False
    ) -> tuple[Certificate, x509.Certificate, ec.EllipticCurvePrivateKey]:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import oid

        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [oid.ExtendedKeyUsageOID.SERVER_AUTH]
        if client:
            purposes.append(oid.ExtendedKeyUsageOID.CLIENT_AUTH)
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.ExtendedKeyUsage(purposes), False),
            (x509.SubjectAlternativeName([_general_name(name) for name in names]), False),
        ]
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        certificate = self._sign(subject, key.public_key(), {"digital_signature": True}, extensions, expired=expired)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(chain=_pem(certificate) + self.certificate, key=pem), certificate, key

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        usage: dict[str, bool],
        extensions: list[tuple[x509.ExtensionType, bool]],
        *,
        expired: bool = False,
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        # Yesterday, as other machines' clocks differ.
        begin = datetime.datetime.now(datetime.UTC) - (3 * _DAY if expired else _DAY)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + (_DAY if expired else _LIFETIME))
        )
        uses = dict.fromkeys(_USES, False) | usage
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        for extension, critical in [
            *extensions,
            (x509.KeyUsage(**uses), True),
            (x509.SubjectKeyIdentifier.from_public_key(key), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), False),
        ]:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)
