"""The kinds of the group."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.kindrules import REVIEW, Installed

GROUP: Final = "authorization.k8s.io"
LOCAL_REVIEWS: Final = GroupResource(GROUP, "localsubjectaccessreviews")
SELF_REVIEWS: Final = GroupResource(GROUP, "selfsubjectaccessreviews")
RULES_REVIEWS: Final = GroupResource(GROUP, "selfsubjectrulesreviews")
REVIEWS: Final = GroupResource(GROUP, "subjectaccessreviews")


def install() -> Installed:
    """The rules of each kind."""
    return dict.fromkeys((LOCAL_REVIEWS, SELF_REVIEWS, RULES_REVIEWS, REVIEWS), REVIEW)
