"""Conditions in a status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_condition(status: Mapping[str, Any], condition: Mapping[str, Any], now: str) -> dict[str, Any] | None:
    """The status with a condition, or None if it has it already. The time of transition changes only with the status of the condition.

    Args:
        status: unchanged.
        condition: without lastTransitionTime.
        now: RFC 3339.
    """
    conditions = [dict(present) for present in status.get("conditions") or ()]
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            since = present.get("lastTransitionTime", now) if same else now
            conditions[index] = {**condition, "lastTransitionTime": since}
            if conditions[index] == present:
                return None
            break
    else:
        conditions.append({**condition, "lastTransitionTime": now})
    return {**status, "conditions": conditions}
