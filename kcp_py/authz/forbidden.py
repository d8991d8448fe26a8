"""The 403 of a denied request, worded as upstream words it (k8s.io/apiserver `responsewriters.ForbiddenStatusError`)."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import go_quote
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.authz.authorizer import Attributes, User

_SANITIZED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    """What the caller is told: only what stood in the request, whether or not the resource or the cluster exists."""
    message = _message(user, attributes).translate(_SANITIZED)
    if reason:
        message = f"{message}: {reason}"
    if not attributes.is_resource:
        return errors.forbidden(GroupResource("", ""), "", message)
    return errors.forbidden(GroupResource(attributes.group, attributes.resource), attributes.name, message)


def _message(user: User, attributes: Attributes) -> str:
    who = f"User {go_quote(user.name)} cannot {attributes.verb}"
    if not attributes.is_resource:
        return f"{who} path {go_quote(attributes.path)}"
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    what = f"{who} resource {go_quote(resource)} in API group {go_quote(attributes.group)}"
    if attributes.namespace:
        return f"{what} in the namespace {go_quote(attributes.namespace)}"
    return f"{what} at the cluster scope"
