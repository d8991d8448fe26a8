"""The TLS side of the listening socket: an `SSLContext` whose certificate and client authorities can change while it serves."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kcp_py.options import Options
from kcp_py.serving.certificates import CertificateError, load_certificates
from kcp_py.serving.clientauthorities import ServerTLS, Versions, authorities_of
from kcp_py.serving.records import ServerEnd

_VERSIONS: Final = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

_Stamp = tuple[int, int, int] | None


class ReloadingContext:
    """Builds the server's `SSLContext` from files, and again when they have changed.

    `context` is given to the listener once. Every handshake on it is moved to the newest context, so a replaced certificate is served,
    and a removed client authority is refused, from the next connection on. On a connection that is open, the next request with a
    certificate of a removed authority has no valid certificate, see `clientauthorities.PeerCertificate`.

    A client certificate is asked for and need not be given. One that no accepted authority has issued ends the handshake, unlike in
    kube-apiserver, which answers it with 401: the `ssl` module verifies during the handshake or not at all.
    """

    def __init__(self, options: Options) -> None:
        """Read the files.

        Raises:
            CertificateError: a file cannot be used.
        """
        self._options = options
        self._stamps = self._stamp()
        self.context = _build(options)
        self._versions = Versions(self.context)
        # Called in every handshake, also where the client names no host.
        self.context.sni_callback = self._use_newest

    @property
    def files(self) -> Sequence[Path]:
        """Every file that the context is made of."""
        return (
            self._options.serving_cert_file,
            self._options.serving_key_file,
            *self._options.client_ca_files,
            *self._options.proxy_ca_files,
        )

    def reload_if_changed(self) -> bool:
        """Build a new context where a file differs from when it was last tried.

        Returns:
            Whether there is a new context.

        Raises:
            CertificateError: the changed files cannot be used. The present context goes on; the next change is tried again.
        """
        stamps = self._stamp()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self._versions.replace(_build(self._options))
        return True

    def _use_newest(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name is not None and isinstance(connection, ServerEnd):
            connection.server_name = name
        if connection.context is not self._versions.newest:
            connection.context = self._versions.newest

    def _stamp(self) -> tuple[_Stamp, ...]:
        return tuple(_file_stamp(path) for path in self.files)


def _file_stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _build(options: Options) -> ServerTLS:
    context = ServerTLS(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = ServerEnd
    context.minimum_version = _VERSIONS[options.tls_min_version]
    context.verify_mode = ssl.CERT_OPTIONAL
    # As in Go: an authority of the bundle is trusted whether or not the one that issued it is in the bundle, too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Without tickets every connection is verified anew: a removed authority is not let in by resumption, and idle watches cost less.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    certificate, key = options.serving_cert_file, options.serving_key_file
    for path in (certificate, key):
        _must_read(path)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise CertificateError(f"{certificate}: cannot be served with the key {key} ({reason})") from None
    context.authorities = _accept(context, options.client_ca_files)
    context.proxy_authorities = _accept(context, options.proxy_ca_files)
    if not options.requestheader_allowed_names and not context.authorities.isdisjoint(context.proxy_authorities):
        # Of kubernetes `pkg/kubeapiserver/options/authentication.go`, where the authority of the server is not in a file of its own.
        raise CertificateError(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be "
            "specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
        )
    return context


def _accept(context: ssl.SSLContext, paths: Iterable[Path]) -> frozenset[bytes]:
    """Verify client certificates by the authorities of files, too. Returns these authorities."""
    found: frozenset[bytes] = frozenset()
    for path in paths:
        _must_read(path)
        try:
            context.load_verify_locations(path)
        except ssl.SSLError as error:
            raise CertificateError(f"{path}: no PEM certificate authority ({error.reason})") from None
        found |= authorities_of(load_certificates(path))
    return found


def _must_read(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from None


def _no_password() -> str:
    # Called where a key is encrypted: without it OpenSSL would ask on the terminal.
    raise ValueError("the private key is encrypted")
