"""Real definitions and the objects made for them, through the real kubectl."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.conftest import Kubectl, lines_of

DEFINITIONS = (
    "crds/acme.cert-manager.io_orders.yaml",
    "crds/apiextensions.crossplane.io_compositions.yaml",
    "crds/apiextensions.crossplane.io_environmentconfigs.yaml",
    "crds/argoproj.io_appprojects.yaml",
    "crds/argoproj.io_eventsources.yaml",
    "crds/argoproj.io_sensors.yaml",
    "crds/argoproj.io_workfloweventbindings.yaml",
    "crds/batch.volcano.sh_jobs.yaml",
    "crds/bus.volcano.sh_commands.yaml",
    "crds/cert-manager.io_certificates.yaml",
    "crds/eventing.knative.dev_triggers.yaml",
    "crds/external-secrets.io_externalsecrets.yaml",
    "crds/external-secrets.io_pushsecrets.yaml",
    "crds/gateway.networking.k8s.io_gatewayclasses.yaml",
    "crds/gateway.networking.k8s.io_gateways.yaml",
    "crds/gateway.networking.k8s.io_grpcroutes.yaml",
    "crds/gateway.networking.k8s.io_httproutes.yaml",
    "crds/gateway.networking.k8s.io_referencegrants.yaml",
    "crds/generators.external-secrets.io_passwords.yaml",
    "crds/helm.toolkit.fluxcd.io_helmreleases.yaml",
    "crds/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
    "crds/kyverno.io_cleanuppolicies.yaml",
    "crds/monitoring.coreos.com_podmonitors.yaml",
    "crds/monitoring.coreos.com_prometheusrules.yaml",
    "crds/monitoring.coreos.com_servicemonitors.yaml",
    "crds/networking.istio.io_destinationrules.yaml",
    "crds/networking.istio.io_virtualservices.yaml",
    "crds/pkg.crossplane.io_locks.yaml",
    "crds/policies.kyverno.io_policyexceptions.yaml",
    "crds/scheduling.volcano.sh_queues.yaml",
    "crds/security.istio.io_authorizationpolicies.yaml",
    "crds/serving.knative.dev_services.yaml",
    "crds/source.toolkit.fluxcd.io_gitrepositories.yaml",
    "crds/triggers.tekton.dev_triggerbindings.yaml",
    "crds/triggers.tekton.dev_triggers.yaml",
)
"""Small enough for the annotation that a client-side apply leaves."""

HUGE = ("crds-huge/kyverno.io_policies.yaml.gz",)
"""Over 256 KiB, so that a client-side apply is refused, as upstream; they are created instead."""

OBJECTS_OF_EACH = 4

REFUSED = {
    "gateway.networking.k8s.io_gateways/invalid-resources-1-905b4f95.yaml": "spec.listeners[0].port: Invalid value: 88888",
    "gateway.networking.k8s.io_gateways/invalid-resources-2-d4f09127.yaml": 'spec.listeners[1]: Duplicate value: {"name":"tcp"}',
    "gateway.networking.k8s.io_httproutes/invalid-resources-3-298756b6.yaml": "spec.hostnames[0]: Invalid value: ",
    "kustomize.toolkit.fluxcd.io_kustomizations/kustomization-0-b66ed919.yaml": "spec.interval: Required value",
    "policies.kyverno.io_policyexceptions/exception-0-2304e53e.yaml": "spec.policyRefs: Required value",
}
"""Objects that the schema alone refuses, and what the refusal says."""


def rows(corpus: Path, index: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of((corpus / index).read_text())]


def files(paths: Sequence[Path]) -> list[str]:
    return [argument for path in paths for argument in ("-f", str(path))]


def decode(path: Path) -> Any:
    return yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)


def lists_differ(wanted: Any, live: Any) -> bool:
    """Whether a default was filled in inside a list.

    kubectl's merge patch for custom resources replaces lists as a whole, so that it then always has a patch to send and says
    `configured`, on any server; the patch changes nothing.
    """
    if isinstance(wanted, dict) and isinstance(live, dict):
        return any(lists_differ(value, live.get(key)) for key, value in wanted.items())
    return isinstance(wanted, list) and wanted != live


def objects_of(corpus: Path) -> tuple[list[Path], set[str]]:
    """The first valid objects of each definition, no two with one name, and the namespaces that they name."""
    chosen: list[Path] = []
    namespaces: set[str] = set()
    seen: dict[str, set[tuple[str, str]]] = {path: set() for path in (*DEFINITIONS, *HUGE)}
    for row in rows(corpus, "crs-index.jsonl"):
        names = seen.get(row["crd_file"])
        if names is None or len(names) == OBJECTS_OF_EACH or not row["valid"] or row.get("unknown_fields") or row.get("update_of"):
            continue
        path = corpus / row["path"]
        metadata = decode(path)["metadata"]
        name = (metadata.get("namespace", ""), metadata.get("name", ""))
        if name[1] and name not in names:
            names.add(name)
            namespaces.add(name[0])
            chosen.append(path)
    return chosen, namespaces - {"", "default"}


def test_real_definitions_and_their_objects(kubectl: Callable[[str], Kubectl], corpus: Path, tmp_path: Path) -> None:
    """Every definition is established, every object applied, listed and left alone by a second apply; invalid ones are refused."""
    cluster = kubectl("corpus")
    definitions = {row["file"]: row for row in rows(corpus, "crds-index.jsonl")}
    plain = files([corpus / path for path in DEFINITIONS])
    assert len(lines_of(cluster.run("apply", *plain))) == len(DEFINITIONS)
    for number, path in enumerate(HUGE):
        unpacked = tmp_path / f"huge-{number}.yaml"
        unpacked.write_bytes(gzip.decompress((corpus / path).read_bytes()))
        assert "metadata.annotations: Too long: may not be more than 262144 bytes" in cluster.run("apply", "-f", str(unpacked), fails=True)
        cluster.run("create", "-f", str(unpacked))
    names = [f"crd/{definitions[path]['crd']}" for path in (*DEFINITIONS, *HUGE)]
    waited = cluster.run("wait", "--for=condition=Established", "--timeout=30s", *names)
    assert waited.count("condition met") == len(names)
    again = lines_of(cluster.run("apply", *plain))
    assert [line for line in again if not line.endswith("unchanged")] == []

    objects, namespaces = objects_of(corpus)
    for namespace in sorted(namespaces):
        cluster.run("create", "namespace", namespace)
    applied = lines_of(cluster.run("apply", *files(objects)))
    assert [line for line in applied if not line.endswith("created")] == []
    assert len(applied) == len(objects)
    live = cluster.json("get", *files(objects))["items"]
    expected = ["configured" if lists_differ(decode(path), found) else "unchanged" for path, found in zip(objects, live, strict=True)]
    again = lines_of(cluster.run("apply", *files(objects)))
    assert [line for line, word in zip(again, expected, strict=True) if not line.endswith(word)] == []
    assert expected.count("unchanged") > len(expected) / 2
    assert cluster.json("get", *files(objects))["items"] == live

    with_objects = {path.parent.name for path in objects}
    for path in (*DEFINITIONS, *HUGE):
        table = lines_of(cluster.run("get", definitions[path]["crd"], "-A", "-o", "wide"))
        if Path(path).name.partition(".yaml")[0] in with_objects:
            assert "NAME" in table[0].split(), path
            assert len(table) > 1, path
        else:
            assert table == [], path

    for path, message in REFUSED.items():
        refusal = cluster.run("apply", "-f", str(corpus / "crs-invalid" / path), fails=True)
        assert message in refusal, f"{path}: {refusal}"
