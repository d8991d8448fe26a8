"""Rules of PriorityClasses.

Source: kubernetes `pkg/apis/scheduling/validation`.
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden
from kcp_py.apis.upstream.priorityclasses import SYSTEM_CLASSES
from kcp_py.apis.upstream.validation.fields import Object, Problems, one_of

_SYSTEM: Final = "system-"
_HIGHEST: Final = 1_000_000_000
_POLICIES: Final = ("PreemptLowerPriority", "Never")


def priority_class_problems(obj: Object) -> Problems:
    """Of a new PriorityClass."""
    title, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if title.startswith(_SYSTEM):
        if mistake := _mistake(obj, title, value):
            reserved = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: {mistake}"
            yield forbidden("metadata.name", reserved)
    elif value > _HIGHEST:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    if "preemptionPolicy" in obj:
        yield from one_of(obj["preemptionPolicy"], "preemptionPolicy", _POLICIES)


def changed_priority_class_problems(obj: Object, old: Object) -> Problems:
    """Of a changed one: only what must not change is looked at, which holds for kinds without rules, too."""
    del obj, old
    yield from list[FieldError]()


def _mistake(obj: Object, title: str, value: int) -> str:
    """The difference to the system's class of the same name; empty where there is none."""
    if (known := SYSTEM_CLASSES.get(title)) is None:
        return f"{title} is not a known system priority class"
    if value != known.value:
        return f"value of {title} PriorityClass must be {known.value}"
    return f"globalDefault of {title} PriorityClass must be false" if obj.get("globalDefault") else ""
