"""Secrets with a token of a service account: names and fields.

Source: kubernetes `staging/src/k8s.io/api/core/v1/types.go` (`SecretTypeServiceAccountToken`, `ServiceAccountTokenKey`).
"""

from __future__ import annotations

from typing import Final

TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
"""The annotation that asks for the token of an account."""
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
"""The annotation with the uid of the account that the token belongs to."""
TOKEN_KEY: Final = "token"  # noqa: S105 - a name
NAMESPACE_KEY: Final = "namespace"
CONTROLLER: Final = "tokens-controller"
"""Upstream's name of the controller that fills these secrets."""
