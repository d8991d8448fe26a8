"""The TokenReview that asks a webhook about a token, and its answer. Pure.

Source: k8s.io/apiserver `plugin/pkg/authenticator/token/webhook/webhook.go`. The cluster is the annotation `kcp.io/cluster`, which names
the cluster of an object in kcp, too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.reviews import InvalidAnswerError, review_status
from kcp_py.authn.tokens import Audiences
from kcp_py.logicalcluster import ClusterSelection, Wildcard
from kcp_py.request.user import UserInfo

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
_GROUP: Final = "authentication.k8s.io"
_KIND: Final = "TokenReview"


def review_body(token: str, audiences: Audiences, cluster: ClusterSelection | None, version: str) -> bytes:
    """The review as it is sent.

    Args:
        token: without the word `Bearer`.
        audiences: the token must be for one of them; empty where the receiver knows them.
        cluster: where the token is used; `*` for requests over all clusters; None for a receiver that knows no logical clusters.
        version: `v1` or `v1beta1`, which have the same fields.
    """
    document = {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/{version}",
        "metadata": {} if cluster is None else {"annotations": {CLUSTER_ANNOTATION: cluster_text(cluster)}},
        "spec": {"token": token, "audiences": list(audiences)},
        "status": {"user": {}},
    }
    return orjson.dumps(document)


def cluster_text(cluster: ClusterSelection) -> str:
    """The name of a cluster, or `*`."""
    return "*" if isinstance(cluster, Wildcard) else str(cluster)


class TokenStatus(NamedTuple):
    """The answer of a webhook."""

    user: UserInfo | None
    """None for a token that is not valid."""
    audiences: Audiences
    """Those that the token is for; empty where the webhook does not know audiences."""
    error: str
    """Why the token is not valid; may be empty."""
    size: int
    """Bytes of the answer."""


def parse_status(body: bytes, version: str) -> TokenStatus:
    """Read an answer.

    Raises:
        InvalidAnswerError: it is not a review of the version, or names no user for a valid token.
    """
    status = review_status(body, f"{_GROUP}/{version}", _KIND)
    authenticated, audiences, error = status.get("authenticated") or False, _texts(status.get("audiences")), status.get("error") or ""
    if not isinstance(authenticated, bool) or not isinstance(error, str):
        raise InvalidAnswerError("the status of the answer has fields of other types")
    user = _user(status.get("user") or {}) if authenticated else None
    return TokenStatus(user, audiences, error, len(body))


def _user(given: Any) -> UserInfo:
    if not isinstance(given, dict):
        raise InvalidAnswerError("the user of the answer is not an object")
    name, uid, extra = given.get("username") or "", given.get("uid") or "", given.get("extra") or {}
    if not isinstance(name, str) or not isinstance(uid, str) or not isinstance(extra, dict):
        raise InvalidAnswerError("the user of the answer has fields of other types")
    if not name:
        raise InvalidAnswerError("the user of the answer has no name")
    return UserInfo(name, uid, _texts(given.get("groups")), MappingProxyType({key: _texts(values) for key, values in extra.items()}))


def _texts(values: Any) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidAnswerError("the answer has a list of something else than texts")
    return tuple(values)
