"""The operator's files with keys of service account tokens, as kube-apiserver reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kcp_py.authn.serviceaccount.keyring import GivenKeys

if TYPE_CHECKING:
    from kcp_py.authn.serviceaccount.keys import VerifyingKey


class KeyFileError(ValueError):
    """A file holds no usable key. `str()` is one line that begins with the file."""


def load_keys(signing: Path | None, verifying: Sequence[Path]) -> GivenKeys:
    """Read the files.

    Args:
        signing: with the private key that signs, in PEM.
        verifying: with keys whose tokens are valid, public or private, several in one file.

    Raises:
        OSError: a file cannot be read.
        KeyFileError: a file holds no usable key.
    """
    if signing is None and not verifying:
        return GivenKeys()
    from kcp_py.authn.serviceaccount.keys import UnusableKeyError, parse_private, parse_public  # noqa: PLC0415 - slow to import

    path = signing
    try:
        key = parse_private(signing.read_bytes()) if signing is not None else None
        public: list[VerifyingKey] = []
        for path in verifying:
            public += parse_public(path.read_bytes())
    except UnusableKeyError as error:
        raise KeyFileError(f"{path}: {error}") from None
    return GivenKeys(key, tuple(public))
