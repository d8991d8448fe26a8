"""The SubjectAccessReview that asks a webhook about a request, and its answer. Pure.

Source: k8s.io/apiserver `plugin/pkg/authorizer/webhook/webhook.go`. The cluster is the extra field
`authorization.kcp.io/cluster-name`, as in kcp.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.reviews import InvalidAnswerError, review_status
from kcp_py.logicalcluster import ClusterSelection, Wildcard
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.selectors import Requirements
from kcp_py.request.user import UserInfo

CLUSTER_EXTRA: Final = "authorization.kcp.io/cluster-name"
_GROUP: Final = "authorization.k8s.io"
_KIND: Final = "SubjectAccessReview"

Spec = dict[str, Any]
"""The spec of a review in v1."""


def review_spec(user: UserInfo, cluster: ClusterSelection | None, info: RequestInfo) -> Spec:
    """The question about a request. The cluster is `*` for requests over all clusters, None for a receiver that knows no clusters."""
    extra = {key: list(values) for key, values in user.extra.items()}
    if cluster is not None:
        extra[CLUSTER_EXTRA] = ["*" if isinstance(cluster, Wildcard) else str(cluster)]
    spec: Spec = {}
    if info.is_resource:
        spec["resourceAttributes"] = _resource_attributes(info)
    else:
        spec["nonResourceAttributes"] = _given(path=info.path, verb=info.verb)
    return spec | _given(user=user.name, groups=list(user.groups), extra=extra, uid=user.uid)


def _resource_attributes(info: RequestInfo) -> dict[str, Any]:
    found = _given(
        namespace=info.namespace,
        verb=info.verb,
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        name=info.name,
    )
    if info.selectors is not None:
        for field, requirements in (
            ("fieldSelector", info.selectors.field_requirements()),
            ("labelSelector", info.selectors.label_requirements()),
        ):
            if requirements.items:
                found[field] = {"requirements": _requirements(requirements)}
    return found


def _requirements(requirements: Requirements) -> list[dict[str, Any]]:
    return [_given(key=one.key, operator=one.operator, values=list(one.values)) for one in requirements.items]


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def review_body(spec: Spec, version: str) -> bytes:
    """The review as it is sent, in `v1` or `v1beta1`."""
    if version == "v1beta1" and "groups" in spec:
        # The field of the older version has another name.
        spec = {("group" if name == "groups" else name): value for name, value in spec.items()}
    document = {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/{version}",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": False},
    }
    return orjson.dumps(document)


class ReviewStatus(NamedTuple):
    """The answer of a webhook."""

    allowed: bool
    denied: bool
    reason: str


def parse_status(body: bytes, version: str) -> ReviewStatus:
    """Read an answer.

    Raises:
        InvalidAnswerError: it is not a review of the version.
    """
    status = review_status(body, f"{_GROUP}/{version}", _KIND)
    allowed, denied, reason = status.get("allowed") or False, status.get("denied") or False, status.get("reason") or ""
    if not (isinstance(allowed, bool) and isinstance(denied, bool) and isinstance(reason, str)):
        raise InvalidAnswerError("the status of the answer has fields of other types")
    return ReviewStatus(allowed, denied, reason)
