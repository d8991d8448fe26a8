"""How webhooks of tenants are addressed, in CRDs and in configurations of admission webhooks.

Source: k8s.io/apiserver `pkg/util/webhook/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid, required
from kcp_py.apimachinery.meta.names import dns_1035_label_problems, dns_subdomain_problems
from kcp_py.golang.urls import UrlError, parse_url

ACCEPTED_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_MAX_PORT: Final = 65535
_URL_FORM: Final = "; desired format: https://host[/path]"


def url_errors(url: str, path: str) -> list[FieldError]:
    """The problems of the URL of a webhook."""
    try:
        parts = parse_url(url)
    except UrlError as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not parts.host:
        errors.append(invalid(path, parts.host, f"host must be specified{_URL_FORM}"))
    if parts.userinfo is not None:
        errors.append(invalid(path, parts.userinfo.decode(errors="replace"), "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def service_errors(service: Mapping[str, Any], path: str) -> list[FieldError]:
    """The problems of the service of a webhook."""
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


def review_version_errors(versions: Sequence[str], path: str, *, require_known: bool, missing: str = "") -> list[FieldError]:
    """The problems of the versions of reviews that a webhook understands. `missing`: the detail where there is none."""
    if not versions:
        return [required(path, missing)]
    errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors.extend(invalid(f"{path}[{index}]", version, problem) for problem in dns_1035_label_problems(version))
    if require_known and not any(version in ACCEPTED_REVIEW_VERSIONS for version in versions):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(ACCEPTED_REVIEW_VERSIONS)}"))
    return errors
