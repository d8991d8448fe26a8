"""The certificates that namespaces publish in `kube-root-ca.crt`."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kcp_py.options import OptionsError


def read_root_ca(path: Path) -> str:
    """The authorities in a file, as PEM; all certificates where none is an authority.

    The file of a serving certificate begins with that certificate, which is replaced more often than the authorities behind it.

    Raises:
        OptionsError: the file cannot be read, or has no certificates.
    """
    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise OptionsError(f"--root-ca-file: {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise OptionsError(f"--root-ca-file: {path} holds no certificates (PEM)") from error
    authorities = [one for one in certificates if _is_authority(one)]
    return b"".join(one.public_bytes(Encoding.PEM) for one in authorities or certificates).decode("ascii")


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
