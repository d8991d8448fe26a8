"""Probes and lifecycle hooks of containers.

Source: kubernetes `pkg/apis/core/validation` (`validateHandler`, `validateProbe`, `validateLifecycle`).
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid, required
from kcp_py.apis.upstream.validation.fields import Object, Problems, header_problems, name, not_negative, one_of, port

_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def probe(value: Object | None, kind: str, path: str, grace: int | None) -> Problems:
    """A probe of a container.

    Args:
        value: the probe; None where the container has none.
        kind: `livenessProbe`, `readinessProbe` or `startupProbe`.
        path: of the probe.
        grace: the grace period of the pod in seconds.
    """
    if value is None:
        return
    yield from _handler(value, _PROBE_HANDLERS, path, grace)
    for member in _COUNTS:
        yield from not_negative(value.get(member), f"{path}.{member}")
    own = value.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", own, "must be greater than 0")
    if kind == "readinessProbe":
        if own is not None:
            yield invalid(f"{path}.terminationGracePeriodSeconds", own, "must not be set for readinessProbes")
    elif value.get("successThreshold", 0) != 1:
        yield invalid(f"{path}.successThreshold", value.get("successThreshold", 0), "must be 1")


def lifecycle(value: Object | None, path: str, grace: int | None) -> Problems:
    """The hooks of a container."""
    for member in ("postStart", "preStop"):
        if value and (hook := value.get(member)) is not None:
            yield from _handler(hook, _HOOK_HANDLERS, f"{path}.{member}", grace)


def _handler(value: Object, kinds: tuple[str, ...], path: str, grace: int | None) -> Problems:
    given = [kind for kind in kinds if kind in value]
    if not given:
        yield required(path, "must specify a handler type")
        return
    yield from _action(given[0], value[given[0]], f"{path}.{given[0]}", grace)
    for kind in given[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")


def _action(kind: str, value: Object, path: str, grace: int | None) -> Problems:
    match kind:
        case "exec":
            if not value.get("command"):
                yield required(f"{path}.command")
        case "httpGet":
            yield from _http(value, path)
        case "tcpSocket":
            yield from port(value.get("port"), f"{path}.port")
        case "grpc":
            yield from port(value.get("port"), f"{path}.port")
            if "mode" in value:
                yield from one_of(value["mode"], f"{path}.mode", ("Plaintext", "TLS"), needed=False)
        case "sleep":
            seconds = value.get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                yield invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")


def _http(value: Object, path: str) -> Problems:
    if not value.get("path"):
        yield required(f"{path}.path")
    yield from port(value.get("port"), f"{path}.port")
    yield from one_of(value.get("scheme"), f"{path}.scheme", ("HTTP", "HTTPS"), needed=False)
    for header in value.get("httpHeaders") or ():
        yield from name(header.get("name", ""), f"{path}.httpHeaders", header_problems)
