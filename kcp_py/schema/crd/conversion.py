"""How a CRD converts between its versions.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go` (`validateCustomResourceConversion`),
k8s.io/apiserver `pkg/util/webhook/validation.go`. Paths are those of the internal type, where the webhook's fields are hoisted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from kcp_py.apimachinery.fielderrors import FieldError, Printed, forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta.names import dns_1035_label_problems, dns_subdomain_problems
from kcp_py.golang.quoting import go_quote

ACCEPTED_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_MAX_PORT: Final = 65535


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
    errors.extend(_version_errors(versions, f"{path}.conversionReviewVersions", require_known=require_known_version))
    return errors


def knows_review_version(versions: list[str]) -> bool:
    """Whether a list of review versions has one that is spoken, or says nothing."""
    return not versions or any(version in ACCEPTED_REVIEW_VERSIONS for version in versions)


def _version_errors(versions: list[str], path: str, *, require_known: bool) -> list[FieldError]:
    if not versions:
        return [required(path)]
    errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors.extend(invalid(f"{path}[{index}]", version, problem) for problem in dns_1035_label_problems(version))
    if require_known and not any(version in ACCEPTED_REVIEW_VERSIONS for version in versions):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(ACCEPTED_REVIEW_VERSIONS)}"))
    return errors


def _client_errors(client: Mapping[str, Any], path: str, *, allow_invalid_bundle: bool) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        errors = [required(path, "exactly one of url or service is required")]
    elif url is not None:
        errors = _url_errors(url, f"{path}.url")
    else:
        errors = _service_errors(service or {}, f"{path}.service")
    bundle = client.get("caBundle")
    if bundle and not allow_invalid_bundle:
        errors.extend(bundle_errors(bundle, f"{path}.caBundle"))
    return errors


_URL_FORM: Final = "; desired format: https://host[/path]"


def _url_errors(url: str, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_URL_FORM}"))
    if parts.username is not None:
        errors.append(invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _service_errors(service: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = []
    if not service.get("name"):
        errors.append(required(f"{path}.name"))
    if not service.get("namespace"):
        errors.append(required(f"{path}.namespace"))
    port = 443 if service.get("port") is None else service["port"]
    if not 1 <= port <= _MAX_PORT:
        errors.append(invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    if (url_path := service.get("path")) is not None:
        errors.extend(_service_path_errors(url_path, f"{path}.path"))
    return errors


def _service_path_errors(url_path: str, path: str) -> list[FieldError]:
    if url_path in {"", "/", "//"}:
        return [invalid(path, url_path, "segment[0] may not be empty")] if url_path == "//" else []
    errors = []
    if not url_path.startswith("/"):
        errors.append(invalid(path, url_path, "must start with a '/'"))
    # As upstream, the first character goes whatever it is.
    for index, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, url_path, f"segment[{index}] may not be empty"))
            continue
        errors.extend(invalid(path, url_path, f"segment[{index}]: {problem}") for problem in dns_subdomain_problems(step))
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
