"""The form of a ClusterAccessGrant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final


def _list(description: str, items: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": items, "maxItems": most}


_TEXT: Final = {"type": "string"}
_SUBJECT: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["kind", "name"],
    "properties": {
        "kind": {"type": "string", "description": "User, Group or ServiceAccount.", "enum": ["User", "Group", "ServiceAccount"]},
        "name": {"type": "string", "description": "Name of the user, the group or the service account.", "minLength": 1},
        "namespace": {"type": "string", "description": "Namespace of a service account."},
        "cluster": {
            "type": "string",
            "description": "Logical cluster in which a service account lives; `root` if it is left out.",
        },
    },
}
_RULE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["verbs", "apiGroups", "resources"],
    "properties": {
        "verbs": _list("Verbs, or `*` for all.", _TEXT, 1000),
        "apiGroups": _list("API groups; the empty text for the core group, `*` for all.", _TEXT, 1000),
        "resources": _list("Resources and subresources, such as `databases` and `databases/status`, or `*` for all.", _TEXT, 1000),
        "resourceNames": _list("Names of objects; all objects if it is left out.", _TEXT, 1000),
    },
}
_SELECTOR: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Logical clusters whose LogicalCluster object has matching labels.",
    "properties": {
        "matchLabels": {
            "type": "object",
            "description": "Labels with their values.",
            "additionalProperties": _TEXT,
            "maxProperties": 100,
        },
        "matchExpressions": _list(
            "Requirements, all of which have to be met.",
            {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": {"type": "string", "description": "Key of the label."},
                    "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
                    "values": _list("Values for In and NotIn.", _TEXT, 1000),
                },
            },
            100,
        ),
    },
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "ClusterAccessGrant gives subjects permissions in several logical clusters, and in requests over all of them.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "description": "Who may do what in which logical clusters.",
            "required": ["subjects", "rules", "clusters"],
            "properties": {
                "subjects": _list("Who has the permissions.", _SUBJECT, 1000),
                "rules": _list("What they may do in each of the logical clusters.", _RULE, 1000),
                "clusters": {
                    "type": "object",
                    "description": "The logical clusters: exactly one of `all`, `names` and `selector`.",
                    "properties": {
                        "all": {"type": "boolean", "description": "All logical clusters, `root` included."},
                        "names": _list("Logical clusters by name.", _TEXT, 10_000),
                        "selector": _SELECTOR,
                    },
                },
            },
        }
    },
}
COLUMNS: Final[Sequence[Mapping[str, Any]]] = (
    {"name": "Subjects", "type": "string", "jsonPath": ".spec.subjects[*].name", "description": "Who has the permissions."},
    {"name": "All", "type": "boolean", "jsonPath": ".spec.clusters.all", "description": "Whether they hold in all logical clusters."},
    {"name": "Clusters", "type": "string", "jsonPath": ".spec.clusters.names", "description": "Logical clusters by name."},
    {"name": "Selector", "type": "string", "jsonPath": ".spec.clusters.selector", "description": "Logical clusters by label."},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."},
)
