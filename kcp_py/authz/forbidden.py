"""The 403 of a denied request, worded as upstream words it (k8s.io/apiserver `responsewriters.ForbiddenStatusError`)."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.golang.quoting import go_quote
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo

_SANITIZED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden(user: UserInfo, info: RequestInfo, reason: str = "") -> StatusError:
    """The error for the caller. It contains only values of the request, so it does not show whether the resource or the cluster exists."""
    message = _message(user, info).translate(_SANITIZED)
    if reason:
        message = f"{message}: {reason}"
    if not info.is_resource:
        return errors.forbidden(GroupResource("", ""), "", message)
    return errors.forbidden(GroupResource(info.group, info.resource), info.name, message)


def _message(user: UserInfo, info: RequestInfo) -> str:
    who = f"User {go_quote(user.name)} cannot {info.verb}"
    if not info.is_resource:
        return f"{who} path {go_quote(info.path)}"
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    what = f"{who} resource {go_quote(resource)} in API group {go_quote(info.group)}"
    if info.namespace:
        return f"{what} in the namespace {go_quote(info.namespace)}"
    return f"{what} at the cluster scope"
