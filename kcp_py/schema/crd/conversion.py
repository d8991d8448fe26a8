"""How a CRD converts between its versions.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go` (`validateCustomResourceConversion`),
Paths are those of the internal type, where the webhook's fields are hoisted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from kcp_py.apimachinery.fielderrors import FieldError, Printed, forbidden, invalid, not_supported, required
from kcp_py.golang.quoting import go_quote
from kcp_py.schema.webhookclient import ACCEPTED_REVIEW_VERSIONS, review_version_errors, service_errors, url_errors


def conversion_errors(
    conversion: Mapping[str, Any] | None, path: str, *, require_known_version: bool, allow_invalid_bundle: bool
) -> list[FieldError]:
    """The problems of `spec.conversion`."""
    if conversion is None:
        return []
    errors: list[FieldError] = []
    strategy = conversion.get("strategy") or ""
    if not strategy:
        errors.append(required(f"{path}.strategy"))
    elif strategy not in {"None", "Webhook"}:
        errors.append(not_supported(f"{path}.strategy", strategy, ("None", "Webhook")))
    webhook = conversion.get("webhook") or {}
    client = webhook.get("clientConfig")
    versions = webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        if client is not None:
            errors.append(forbidden(f"{path}.webhookClientConfig", "should not be set when strategy is not set to Webhook"))
        if versions:
            errors.append(forbidden(f"{path}.conversionReviewVersions", "should not be set when strategy is not set to Webhook"))
        return errors
    if client is None:
        errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
    else:
        errors.extend(_client_errors(client, f"{path}.webhookClientConfig", allow_invalid_bundle=allow_invalid_bundle))
    errors.extend(review_version_errors(versions, f"{path}.conversionReviewVersions", require_known=require_known_version))
    return errors


def knows_review_version(versions: list[str]) -> bool:
    """Whether a list of review versions has one that is spoken, or says nothing."""
    return not versions or any(version in ACCEPTED_REVIEW_VERSIONS for version in versions)


def _client_errors(client: Mapping[str, Any], path: str, *, allow_invalid_bundle: bool) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        errors = [required(path, "exactly one of url or service is required")]
    elif url is not None:
        errors = url_errors(url, f"{path}.url")
    else:
        errors = service_errors(service or {}, f"{path}.service")
    bundle = client.get("caBundle")
    if bundle and not allow_invalid_bundle:
        errors.extend(bundle_errors(bundle, f"{path}.caBundle"))
    return errors


def bundle_errors(bundle: str, path: str) -> list[FieldError]:
    """A CA bundle has to hold at least one certificate and nothing else."""
    shown = Printed(go_quote(bundle))
    try:
        pem = base64.b64decode(bundle, validate=True)
        problem = _pem_problem(pem)
    except (binascii.Error, ValueError):
        problem = "illegal base64 data"
    if not problem:
        return []
    return [invalid(path, shown, f"unable to load root certificates: {problem}")]


def _pem_problem(pem: bytes) -> str:
    from cryptography import x509  # noqa: PLC0415 - costs tens of milliseconds, and few CRDs have a webhook

    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        return "unable to parse bytes as PEM block" if b"-----BEGIN" not in pem else f"error parsing certificate: {error}"
    return "" if certificates else "unable to parse bytes as PEM block"
