"""CertificateSigningRequests (kubernetes `pkg/registry/certificates/certificates/strategy.go`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.apis.certificates.validation import APPROVED, DENIED, changed_request_problems, conditions_of, new_request_problems
from kcp_py.registry.strategy import Strategy
from kcp_py.request.user import UserInfo

_HEAVY_REQUEST: Final = 2048
"""Characters of a request in base64. Verification of larger ones, which have larger keys, takes milliseconds."""
_RESETS: Final[Mapping[str, FieldSet]] = {
    "status": {"f:spec": {}, "f:status": {"f:conditions": {}}},
    "approval": {"f:spec": {}, "f:status": {"f:certificate": {}}},
}


class SigningRequestStrategy(Strategy):
    """The specification never changes, conditions of approval change through `/approval`, and the rest of the status through `/status`."""

    has_generation = False
    keeps_spec = True
    validate_name = staticmethod(names.path_segment_problems)

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Prepare. `clock` gives Unix seconds, for the times of conditions."""
        self._clock = clock

    def resets_of(self, subresource: str) -> FieldSet | None:
        return _RESETS.get(subresource)

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {}

    def fill_new(self, obj: dict[str, Any], user: UserInfo) -> None:
        """The signer needs the identity of the caller: values from the client are dropped."""
        spec = obj["spec"]
        for field in ("extra", "groups", "uid", "username"):
            spec.pop(field, None)
        about: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
        about["extra"] = {name: list(values) for name, values in user.extra.items()}
        spec.update((field, value) for field, value in about.items() if value)

    def prepare_for_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        for kind in (APPROVED, DENIED):
            _preserve(obj, old, kind)
        self._fill_times(obj, old)

    def prepare_for_approval(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        self._fill_times(obj, old)
        status = {key: value for key, value in (old.get("status") or {}).items() if key != "conditions"}
        if conditions := conditions_of(obj):
            status["conditions"] = conditions
        obj["status"] = status

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        return new_request_problems(obj)

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        return changed_request_problems(obj, old, "")

    def validate_subresource_update(self, obj: dict[str, Any], old: dict[str, Any], subresource: str) -> list[FieldError]:
        return changed_request_problems(obj, old, subresource)

    def is_heavy(self, obj: dict[str, Any]) -> bool:
        return len(obj["spec"].get("request") or "") > _HEAVY_REQUEST

    def _fill_times(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        """Give conditions the times that they lack. The time of a transition is that of the condition before, if the status is equal."""
        now = format_time(self._clock())
        times = {
            (condition.get("type"), condition.get("status")): condition["lastTransitionTime"]
            for condition in reversed(conditions_of(old))
            if condition.get("lastTransitionTime")
        }
        if conditions := conditions_of(obj):
            obj["status"]["conditions"] = [
                {
                    **condition,
                    "lastUpdateTime": condition.get("lastUpdateTime") or now,
                    "lastTransitionTime": condition.get("lastTransitionTime")
                    or times.get((condition.get("type"), condition.get("status")), now),
                }
                for condition in conditions
            ]


def _preserve(obj: dict[str, Any], old: dict[str, Any], kind: str) -> None:
    """Put the stored conditions of a type in the place of those of the request, if there are as many."""
    before = [condition for condition in conditions_of(old) if condition.get("type") == kind]
    conditions = list(conditions_of(obj))
    places = [index for index, condition in enumerate(conditions) if condition.get("type") == kind]
    if before and len(places) == len(before):
        for index, condition in zip(places, before, strict=True):
            conditions[index] = condition
        obj["status"]["conditions"] = conditions
