"""Secrets with a token of a service account: names and fields.

Source: kubernetes `staging/src/k8s.io/api/core/v1/types.go` (`SecretTypeServiceAccountToken`, `ServiceAccountTokenKey`),
`pkg/serviceaccount/legacy.go` and `pkg/controlplane/controller/legacytokentracking`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, Final

TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
"""The annotation that asks for the token of an account."""
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
"""The annotation with the uid of the account that the token belongs to."""
TOKEN_KEY: Final = "token"  # noqa: S105 - a name
NAMESPACE_KEY: Final = "namespace"
CONTROLLER: Final = "tokens-controller"
"""Upstream's name of the controller that fills these secrets."""
LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
"""The label with the day on which the token of a secret was used last, as `2006-01-02` in UTC."""
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
"""The label with the day since which the token of a secret is refused."""
TRACKING: Final = "kube-apiserver-legacy-service-account-token-tracking"
"""The ConfigMap in `kube-system` that says since when the use of these tokens is recorded."""
TRACKED_SINCE: Final = "since"
"""The key of the day in its data."""

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def day_of(seconds: float) -> str:
    """The day of a time in unix seconds, as the labels write it."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d")


def seconds_of_day(day: object) -> float | None:
    """When a day of a label began, in unix seconds; None for anything but a day."""
    if not isinstance(day, str) or not _DAY.fullmatch(day):
        return None
    try:
        return dt.datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        return None


def has_reference(account: Mapping[str, Any], secret: str) -> bool:
    """Whether a service account names a secret in its list `secrets`: the secrets that Kubernetes made itself before 1.24."""
    return any(reference.get("name") == secret for reference in account.get("secrets") or ())
