"""Differences between the control plane and the labels of the corpus, with reasons. Other differences fail the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.controlplane.corpus_judgement import Judgement


class Reason(NamedTuple):
    """Why files differ."""

    check: str
    """The beginning of the names of the checks."""
    paths: tuple[str, ...]
    """The beginnings of the paths."""
    text: str


_BUILT_IN = "the kind is built in here and cannot be defined a second time"
_LABEL = "labelled by a structural check that does not run CEL; a rule of the definition refuses it"

REASONS: Final = (
    Reason(
        "crds",
        ("crds/admissionregistration.k8s.io_", "crds/core.kcp.io_logicalclusters", "crds/rbac.authorization.k8s.io_"),
        _BUILT_IN,
    ),
    Reason("objects: definition present", ("crs/core.kcp.io_logicalclusters/",), _BUILT_IN),
    Reason(
        "crds: accepted",
        ("crds/kubernetes.crossplane.io_objects",),
        "refused upstream too: its webhook's service has neither name nor namespace, which its operator fills in",
    ),
    Reason(
        "crds-variants",
        ("crds-variants/gateway.networking.k8s.io_tlsroutes__2_istio",),
        "refused upstream too: protected group without its approval annotation, and it drops a stored version",
    ),
    Reason(
        "crds-fixtures: accepted",
        ("crds-fixtures/example.io_examples",),
        "refused upstream too: preserveUnknownFields, and a version without a schema",
    ),
    Reason(
        "crs: accepted",
        ("crs/networking.istio.io_serviceentries/serviceentry-valid-0-",),
        "a plain scalar in a flow list ends in `::`, which go-yaml reads and libyaml refuses",
    ),
    Reason("crs: accepted", ("crs/telemetry.istio.io_telemetries/k8sgateway-selector-",), _LABEL),
    Reason(
        "crs-unknown-fields: accepted",
        ("crs-unknown-fields/apiextensions.crossplane.io_compositions/", "crs-unknown-fields/gateway.networking.x-k8s.io_xbackend"),
        f"{_LABEL}, once the fields that the schema lacks are dropped",
    ),
    Reason(
        "crs-invalid: refused with the message named",
        ("crs-invalid/networking.istio.io_envoyfilters/",),
        "the message is of a release before 1.34: the type of the value was printed instead of the value, or of nothing",
    ),
    Reason(
        "crs-invalid: refused with the message named",
        ("crs-invalid/extensions.istio.io_wasmplugins/wasm-invalid-11-", "crs-invalid/extensions.istio.io_wasmplugins/wasm-invalid-12-"),
        "the message is of a test that does not drop nulls; a server drops them first, and the field is missing",
    ),
)


def reason_of(check: str, path: str) -> str:
    """The reason why a file differs in a check; empty if it is unknown."""
    for reason in REASONS:
        if check.startswith(reason.check) and path.startswith(reason.paths):
            return reason.text
    return ""


def unexplained(judgement: Judgement) -> Iterator[str]:
    """What differs for no known reason."""
    for check, found in judgement.exceptions.items():
        for path, answer in found.items():
            if not reason_of(check, path):
                yield f"{check}: {path}: {answer}"
