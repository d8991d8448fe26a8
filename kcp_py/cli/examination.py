"""What `kcp-py doctor` looks at: one function per area, each a generator of findings that changes nothing."""

from __future__ import annotations

import datetime as dt
import http.client
import platform
import socket
import ssl
import stat
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kcp_py import __version__
from kcp_py.cli.credentials import CONTEXTS
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import load_context
from kcp_py.options import Options
from kcp_py.serving.certificates import CertificateError, certificate_names, load_certificates, needs_renewal, serving_names
from kcp_py.storage.sqlite import integrity_check
from kcp_py.storage.sqlite.room import Room

LIBRARIES: Final = ("apsw", "cryptography", "fastapi", "grpcio", "httptools", "orjson", "uvicorn", "uvloop")
_OPTIONAL: Final = frozenset(("grpcio", "uvloop"))
PROBE_TIMEOUT: Final = 3.0


class Severity(Enum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


class Finding(NamedTuple):
    """One line of the report."""

    severity: Severity
    text: str


def guarded(examine: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of an area. A file that may not even be looked at is a finding, too, and the last one of its area."""
    try:
        yield from examine()
    except OSError as error:
        yield _wrong(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def versions() -> Iterator[Finding]:
    """The program, Python, OpenSSL and the libraries. apsw's version begins with that of the SQLite in it."""
    yield _ok(f"kcp-py {__version__}, Python {platform.python_version()}, {ssl.OPENSSL_VERSION}")
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield (_note if name in _OPTIONAL else _wrong)(f"{name} is not installed")
    yield _ok(", ".join(found))


def files(options: Options) -> Iterator[Finding]:
    """The root directory and its secrets: whether they exist, and are for their owner only."""
    root = options.root_directory
    if not root.exists():
        yield _note(f"{root} does not exist; kcp-py start makes it")
        return
    if not root.is_dir():
        yield _wrong(f"{root} is not a directory")
        return
    secret = [root, options.pki_directory, options.admin_token_file, options.kubeconfig_file]
    secret += [options.pki_directory / name for name in ("ca.key", "admin.key")]
    secret.append(options.serving_key_file)
    if options.storage == "sqlite":
        secret.append(options.database_file)
    if options.dev_users:
        secret.append(options.dev_token_file)
    if options.token_auth_file is not None:
        secret.append(options.token_auth_file)
    for path in dict.fromkeys(secret):
        yield _mode(path)


def certificates(options: Options) -> Iterator[Finding]:
    """Every certificate: readable, in its time, and the serving one with the names that clients use."""
    now = dt.datetime.now(dt.UTC)
    own = [options.ca_file, options.pki_directory / "admin.crt"]
    if options.tls_cert_file is None:
        own.append(options.serving_cert_file)
    for path in dict.fromkeys([*own, options.serving_cert_file, *options.client_ca_files, *options.proxy_ca_files]):
        if path in own and not path.exists():
            yield _note(f"{path} does not exist; kcp-py start makes it")
            continue
        yield from _certificate(path, now, renewed=path.is_relative_to(options.pki_directory))
    if options.serving_cert_file.exists():
        yield _serving_certificate_names(options)
    yield from _pair(options)


def kubeconfig(options: Options) -> Iterator[Finding]:
    """The administrator's kubeconfig: readable, with its contexts, and for the address that is served."""
    path = options.kubeconfig_file
    if not path.exists():
        yield _note(f"{path} does not exist; kcp-py start makes it")
        return
    for context in CONTEXTS:
        try:
            access = load_context(str(path), context)
        except CommandError as error:
            yield _wrong(error.message)
            return
    if urlsplit(access.base_url).hostname != options.external_address:
        yield _wrong(f"{path} is for {access.base_url}, the settings say {options.external_address}; kcp-py start writes it again")
    else:
        yield _ok(f"{path} is for {access.base_url}")


def store(options: Options) -> Iterator[Finding]:
    """The sqlite file as a whole; etcd's endpoints as far as a connection."""
    match options.storage:
        case "memory":
            yield _note("memory storage forgets everything when the server stops")
        case "sqlite" if not options.database_file.exists():
            yield _note(f"{options.database_file} does not exist; kcp-py start makes it")
        case "sqlite":
            problems = integrity_check(options.database_file)
            yield from (_wrong(f"{options.database_file}: {problem}") for problem in problems)
            if not problems:
                yield _ok(f"{options.database_file} is sound ({options.database_file.stat().st_size / 1e6:.1f} MB)")
            yield from _room(options)
        case "etcd":
            if find_spec("grpc") is None:
                yield _wrong("the storage etcd needs the extra etcd: pip install 'kcp-py[etcd]'")
            yield from (_endpoint(url) for url in options.etcd_servers)


def _room(options: Options) -> Iterator[Finding]:
    room = Room(str(options.database_file.resolve()), options.storage_reserve)
    free = f"{room.free() / 1e6:.0f} MB are free"
    if not room.missing:
        yield _ok(f"the disk has its reserve of {options.storage_reserve / 1e6:.0f} MB for deletions; {free}")
    elif room.free() < room.missing * 3 // 2:
        yield _wrong(
            f"the disk is full ({free}): nothing but deletions and small changes is taken; delete objects, or make room on the disk"
        )
    else:
        yield _note(f"the reserve of {options.storage_reserve / 1e6:.0f} MB for deletions is not there; a running server makes it; {free}")


def port(options: Options) -> Iterator[Finding]:
    """Free, answering as a server of this root directory, or taken by something else."""
    address = options.bind_address
    unspecified = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound
    host = unspecified.get(address, address)
    where = f"{address} port {options.secure_port}"
    try:
        socket.create_connection((host, options.secure_port), timeout=PROBE_TIMEOUT).close()
    except ConnectionRefusedError:
        yield _ok(f"{where} is free")
        return
    except OSError as error:
        yield _wrong(f"{where}: {error.strerror or error}")
        return
    yield _readiness(options, host, where)


def _readiness(options: Options, host: str, where: str) -> Finding:
    authority = options.ca_file if options.tls_cert_file is None else options.tls_cert_file
    if not authority.exists():
        return _wrong(f"{where} is in use, and not by a server of {options.root_directory}")
    try:
        context = ssl.create_default_context(cafile=authority)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False
        connection = http.client.HTTPSConnection(host, options.secure_port, timeout=PROBE_TIMEOUT, context=context)
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
        connection.close()
    except (OSError, http.client.HTTPException) as error:
        return _wrong(f"{where} is taken by something that is not a server of {options.root_directory}: {error}")
    return (
        _ok(f"{where}: a server is running and ready") if status == 200 else _wrong(f"{where}: a server is running, /readyz says {status}")
    )


def _mode(path: Path) -> Finding:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _note(f"{path} does not exist")
    except OSError as error:
        return _wrong(f"{path}: {error.strerror or error}")
    if mode & 0o077:
        return _wrong(f"{path} is open to others (mode {mode:04o}); chmod go= {path}")
    return _ok(f"{path} mode {mode:04o}")


def _certificate(path: Path, now: dt.datetime, *, renewed: bool) -> Iterator[Finding]:
    try:
        found = load_certificates(path)
    except CertificateError as error:
        yield _wrong(str(error))
        return
    for certificate in found:
        name = certificate.subject.rfc4514_string()
        until = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        if certificate.not_valid_after_utc < now:
            yield _wrong(f"{path} ({name}) expired on {until}")
        elif certificate.not_valid_before_utc > now:
            yield _wrong(f"{path} ({name}) is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}; is the clock right?")
        elif needs_renewal(certificate, now):
            yield _note(f"{path} ({name}) expires on {until}" + ("; the server renews it" if renewed else ""))
        else:
            yield _ok(f"{path} ({name}) until {until}")


def _serving_certificate_names(options: Options) -> Finding:
    try:
        present = certificate_names(load_certificates(options.serving_cert_file)[0])
    except CertificateError as error:
        return _wrong(str(error))
    wanted = serving_names(options) if options.tls_cert_file is None else (options.external_address,)
    missing = [name for name in wanted if name not in present]
    if missing:
        text = f"{options.serving_cert_file} lacks {', '.join(missing)}"
        return _wrong(text) if options.tls_cert_file is not None else _note(f"{text}; kcp-py start issues it again")
    return _ok(f"{options.serving_cert_file} is for {', '.join(sorted(present))}")


def _pair(options: Options) -> Iterator[Finding]:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.serving_cert_file, options.serving_key_file)
    except FileNotFoundError:
        return
    except (ssl.SSLError, OSError) as error:
        yield _wrong(f"{options.serving_key_file} cannot be used with {options.serving_cert_file}: {error}")


def _endpoint(url: str) -> Finding:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 2379), timeout=PROBE_TIMEOUT).close()
    except OSError as error:
        return _wrong(f"{url}: {error.strerror or error}")
    return _ok(f"{url} can be reached")


def _ok(text: str) -> Finding:
    return Finding(Severity.OK, text)


def _note(text: str) -> Finding:
    return Finding(Severity.NOTE, text)


def _wrong(text: str) -> Finding:
    return Finding(Severity.WRONG, text)
