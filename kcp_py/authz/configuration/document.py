"""`AuthorizationConfiguration` of apiserver.config.k8s.io, read as strictly as upstream reads it. Pure.

Source: k8s.io/apiserver `pkg/apis/apiserver/v1/types.go` and `defaults.go`, `pkg/apis/apiserver/load/load.go`. The versions
v1, v1beta1 and v1alpha1 have the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.serializer.decoding import DecodeError
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from kcp_py.golang import durations
from kcp_py.golang.quoting import go_quote

GROUP: Final = "apiserver.config.k8s.io"
VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
KIND: Final = "AuthorizationConfiguration"
_LOADING: Final = "failed to load AuthorizationConfiguration from file: "
_AUTHORIZED_TTL: Final = 300 * durations.SECOND
_UNAUTHORIZED_TTL: Final = 30 * durations.SECOND


class ConfigurationError(Exception):
    """The configuration is invalid. `str()` has every problem."""


class WebhookConfiguration(NamedTuple):
    """A webhook. Durations are nanoseconds."""

    authorized_ttl: int = _AUTHORIZED_TTL
    cache_authorized_requests: bool = True
    unauthorized_ttl: int = _UNAUTHORIZED_TTL
    cache_unauthorized_requests: bool = True
    timeout: int = 0
    subject_access_review_version: str = ""
    match_condition_subject_access_review_version: str = ""
    failure_policy: str = ""
    connection_type: str = ""
    kube_config_file: str | None = None
    match_conditions: tuple[str, ...] = ()


class AuthorizerConfiguration(NamedTuple):
    """An authorizer."""

    type: str = ""
    name: str = ""
    webhook: WebhookConfiguration | None = None


def parse_configuration(content: bytes) -> tuple[AuthorizerConfiguration, ...]:
    """The authorizers of a file, with defaults, in order.

    Raises:
        ConfigurationError: the file is not a configuration, or has fields that the kind does not have.
    """
    if not content:
        return ()
    try:
        document, problems = decode_yaml_strict(content)
    except DecodeError as error:
        raise ConfigurationError(f"{_LOADING}{error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{_LOADING}the document is not an object")
    _check_kind(document)
    reader = _Reader(problems)
    fields = reader.object(document, "", _fields("apiVersion", "kind", "authorizers"))
    found = [
        _authorizer(reader, one, f"authorizers[{index}]") for index, one in enumerate(reader.list(fields.get("authorizers"), "authorizers"))
    ]
    if reader.problems:
        raise ConfigurationError(f"{_LOADING}strict decoding error: {', '.join(reader.problems)}")
    return tuple(found)


def _check_kind(document: Mapping[str, Any]) -> None:
    kind, version = document.get("kind"), document.get("apiVersion")
    if not kind:
        raise ConfigurationError(f"{_LOADING}Object 'Kind' is missing")
    if not version:
        raise ConfigurationError(f"{_LOADING}Object 'apiVersion' is missing")
    if kind != KIND or version not in [f"{GROUP}/{known}" for known in VERSIONS]:
        raise ConfigurationError(f"{_LOADING}no kind {go_quote(str(kind))} is registered for version {go_quote(str(version))}")


def _authorizer(reader: _Reader, value: Any, path: str) -> AuthorizerConfiguration:
    fields = reader.object(value, path, _fields("type", "name", "webhook"))
    webhook = fields.get("webhook")
    return AuthorizerConfiguration(
        reader.text(fields, "type", path),
        reader.text(fields, "name", path),
        None if webhook is None else _webhook(reader, webhook, f"{path}.webhook"),
    )


_WEBHOOK_FIELDS: Final = (
    "authorizedTTL cacheAuthorizedRequests unauthorizedTTL cacheUnauthorizedRequests timeout subjectAccessReviewVersion "
    "matchConditionSubjectAccessReviewVersion failurePolicy connectionInfo matchConditions"
)


def _webhook(reader: _Reader, value: Any, path: str) -> WebhookConfiguration:
    fields = reader.object(value, path, _fields(*_WEBHOOK_FIELDS.split()))
    connection_path = f"{path}.connectionInfo"
    connection = reader.object(fields.get("connectionInfo") or {}, connection_path, _fields("type", "kubeConfigFile"))
    conditions = [
        reader.text(reader.object(one, place, _fields("expression")), "expression", place)
        for index, one in enumerate(reader.list(fields.get("matchConditions"), f"{path}.matchConditions"))
        for place in (f"{path}.matchConditions[{index}]",)
    ]
    return WebhookConfiguration(
        reader.duration(fields, "authorizedTTL", path) or _AUTHORIZED_TTL,
        reader.flag(fields, "cacheAuthorizedRequests", path),
        reader.duration(fields, "unauthorizedTTL", path) or _UNAUTHORIZED_TTL,
        reader.flag(fields, "cacheUnauthorizedRequests", path),
        reader.duration(fields, "timeout", path),
        reader.text(fields, "subjectAccessReviewVersion", path),
        reader.text(fields, "matchConditionSubjectAccessReviewVersion", path),
        reader.text(fields, "failurePolicy", path),
        reader.text(connection, "type", connection_path),
        reader.text(connection, "kubeConfigFile", connection_path) if connection.get("kubeConfigFile") is not None else None,
        tuple(conditions),
    )


def _fields(*names: str) -> frozenset[str]:
    return frozenset(names)


class _Reader:
    """Reads values of the types that the kind has. Problems are collected; a wrong value is read as an absent one."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)

    def object(self, value: Any, path: str, known: frozenset[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._wrong(path, "an object")
            return {}
        for name in value:
            if name not in known:
                self.problems.append(f"unknown field {go_quote(f'{path}.{name}' if path else str(name))}")
        return value

    def list(self, value: Any, path: str) -> Sequence[Any]:
        if value is None or isinstance(value, list):
            return value or ()
        self._wrong(path, "a list")
        return ()

    def text(self, fields: Mapping[str, Any], name: str, path: str) -> str:
        value = fields.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self._wrong(f"{path}.{name}", "a string")
        return ""

    def flag(self, fields: Mapping[str, Any], name: str, path: str) -> bool:
        value = fields.get(name)
        if value is None or isinstance(value, bool):
            return value is not False
        self._wrong(f"{path}.{name}", "true or false")
        return True

    def duration(self, fields: Mapping[str, Any], name: str, path: str) -> int:
        text = self.text(fields, name, path)
        try:
            return durations.parse_duration(text) if text else 0
        except ValueError as error:
            self.problems.append(f"{path}.{name}: {error}")
            return 0

    def _wrong(self, path: str, wanted: str) -> None:
        self.problems.append(f"{path} is not {wanted}")
