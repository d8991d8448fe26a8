"""`ClusterBinding`: the logical cluster in a client certificate, as a URI among its alternative names.

`kcp://cluster/NAME?uid=UID` names the cluster and the uid of its LogicalCluster. A cluster that is deleted and created again has another
uid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from cryptography import x509

from kcp_py.logicalcluster import Name, parse_name

_SCHEME: Final = "kcp:"
_FORM: Final = re.compile(r"kcp://cluster/([a-z0-9:-]+)\?uid=([0-9a-f-]+)", re.ASCII)


class ClusterBinding(NamedTuple):
    """The one cluster in which a certificate is valid."""

    cluster: Name
    uid: str
    """Of the LogicalCluster."""

    @property
    def uri(self) -> str:
        """As it stands in a certificate."""
        return f"kcp://cluster/{self.cluster}?uid={self.uid}"


def is_binding(uri: str) -> bool:
    """Whether a URI is, or tries to be, a binding to a cluster."""
    return uri[: len(_SCHEME)].lower() == _SCHEME


def parse_binding(uris: Iterable[str]) -> ClusterBinding | None:
    """The binding among the URIs of a certificate; None where there is none.

    Raises:
        ValueError: there are two, or one that is not exactly of the form above.
    """
    found = [uri for uri in uris if is_binding(uri)]
    if not found:
        return None
    match = _FORM.fullmatch(found[0])
    if len(found) > 1 or match is None:
        raise ValueError("a certificate names one logical cluster, as kcp://cluster/NAME?uid=UID")
    return ClusterBinding(parse_name(match[1]), match[2])


def binding_of(certificate: x509.Certificate) -> ClusterBinding | None:
    """The binding of a certificate; None for one that is valid in every cluster.

    Raises:
        ValueError: its alternative names, or the binding among them, cannot be read.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ValueError(str(error)) from error
    return parse_binding(names.get_values_for_type(x509.UniformResourceIdentifier))
