"""Webhooks as a stored configuration defines them. Pure; equal configurations of different clusters are one value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.admission.policy.matching import Matching, parse_matching
from kcp_py.egress import Endpoint, endpoint_of

_SHARED: Final = 1000
"""So many configurations are parsed once for all clusters that have them."""


class Webhook(NamedTuple):
    """One webhook of a configuration."""

    configuration: str
    name: str
    identity: str
    """Unique in the cluster."""
    matching: Matching
    conditions: tuple[str, ...]
    """Expressions, all of which must be true."""
    endpoint: Endpoint
    timeout: int
    """Seconds."""
    ignores_failures: bool
    allows_dry_run: bool
    review_versions: tuple[str, ...]
    is_reinvoked: bool
    """Whether it is called again where later plugins changed the object."""


def parse_configuration(obj: Mapping[str, Any]) -> tuple[Webhook, ...]:
    """The webhooks of a stored configuration that have rules, in its order.

    Raises:
        ValueError: the configuration is not valid.
        TypeError: as above.
        KeyError: as above.
        AttributeError: as above.
    """
    return _parsed(obj["metadata"]["name"], orjson.dumps(obj.get("webhooks") or []))


@lru_cache(maxsize=_SHARED)
def _parsed(configuration: str, webhooks: bytes) -> tuple[Webhook, ...]:
    seen: dict[str, int] = {}
    parsed = []
    for webhook in orjson.loads(webhooks):
        name = webhook["name"]
        seen[name] = seen.get(name, 0) + 1
        if webhook.get("rules"):
            parsed.append(_webhook(webhook, configuration, f"{configuration}/{name}/{seen[name] - 1}"))
    return tuple(parsed)


def _webhook(webhook: Mapping[str, Any], configuration: str, identity: str) -> Webhook:
    return Webhook(
        configuration=configuration,
        name=webhook["name"],
        identity=identity,
        matching=parse_matching({**webhook, "resourceRules": webhook["rules"]}),
        conditions=tuple(condition["expression"] for condition in webhook.get("matchConditions") or ()),
        endpoint=endpoint_of(webhook["clientConfig"]),
        timeout=webhook.get("timeoutSeconds") or 10,
        ignores_failures=webhook.get("failurePolicy") == "Ignore",
        allows_dry_run=webhook.get("sideEffects") in {"None", "NoneOnDryRun"},
        review_versions=tuple(webhook.get("admissionReviewVersions") or ()),
        is_reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
    )
