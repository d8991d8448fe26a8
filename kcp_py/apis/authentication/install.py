"""The kinds of the group."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.kindrules import REVIEW, Installed

GROUP: Final = "authentication.k8s.io"
SELF_REVIEWS: Final = GroupResource(GROUP, "selfsubjectreviews")
TOKEN_REVIEWS: Final = GroupResource(GROUP, "tokenreviews")


def install() -> Installed:
    """The rules of each kind."""
    return dict.fromkeys((SELF_REVIEWS, TOKEN_REVIEWS), REVIEW)
