"""Tests that are made for each version of kubectl, and the objects that they work on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.binaries import chosen_kubectl

GROUP = "fleet.example.com"
SHIP = {
    "type": "object",
    "description": "A Ship sails.",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What the ship should be.",
            "properties": {
                "color": {"type": "string", "description": "Color of the hull."},
                "crew": {"type": "integer", "minimum": 0},
                "ports": {"type": "array", "items": {"type": "string"}},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "crew": {"type": "integer"},
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}},
                },
            },
        },
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"ships.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "ships",
            "singular": "ship",
            "kind": "Ship",
            "listKind": "ShipList",
            "shortNames": ["sh"],
            "categories": ["all", "fleet"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SHIP},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}},
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
                ],
            }
        ],
    },
}


def number_of(minor: str) -> int:
    """The 25 of `1.25`, to compare versions."""
    return int(minor.partition(".")[2])


def each_kubectl(exercised: str, since: str = "1.20") -> pytest.MarkDecorator:
    """A test for each version of kubectl from one on, with its row of docs/compatibility.md; its parameter is `minor`."""
    versions = [minor for minor in chosen_kubectl() if number_of(minor) >= number_of(since)]
    return pytest.mark.parametrize(
        "minor", [pytest.param(minor, marks=pytest.mark.compatibility("kubectl", minor, exercised)) for minor in versions]
    )


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    # A server does not keep empty data, which kubectl would then add with each apply.
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **({"data": data} if data else {})}


def ship(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Ship", "metadata": metadata, "spec": spec}


def manifests(*objects: dict[str, Any]) -> str:
    """What `-f -` reads."""
    return "\n".join(json.dumps(one) for one in objects)
