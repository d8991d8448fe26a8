"""Real definitions and the objects made for them, through the real kubectl."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import Kubectl, lines_of

DEFINITIONS = (
    "crds/acme.cert-manager.io_orders.yaml",
    "crds/apiextensions.crossplane.io_compositeresourcedefinitions.yaml",
    "crds/apiextensions.crossplane.io_compositions.yaml",
    "crds/apiextensions.crossplane.io_environmentconfigs.yaml",
    "crds/apiextensions.crossplane.io_managedresourcedefinitions.yaml",
    "crds/argoproj.io_appprojects.yaml",
    "crds/argoproj.io_eventbus.yaml",
    "crds/argoproj.io_eventsources.yaml",
    "crds/argoproj.io_sensors.yaml",
    "crds/argoproj.io_workfloweventbindings.yaml",
    "crds/batch.volcano.sh_jobs.yaml",
    "crds/bigtable.cnrm.cloud.google.com_bigtableappprofiles.yaml",
    "crds/bus.volcano.sh_commands.yaml",
    "crds/cert-manager.io_certificates.yaml",
    "crds/cloudplatform.gcp.upbound.io_projectiamcustomroles.yaml",
    "crds/compute.cnrm.cloud.google.com_computetargetvpngateways.yaml",
    "crds/druid.gardener.cloud_etcds.yaml",
    "crds/eventing.knative.dev_triggers.yaml",
    "crds/extensions.istio.io_wasmplugins.yaml",
    "crds/external-secrets.io_externalsecrets.yaml",
    "crds/external-secrets.io_pushsecrets.yaml",
    "crds/flagger.app_canaries.yaml",
    "crds/flow.volcano.sh_jobtemplates.yaml",
    "crds/gateway.networking.k8s.io_backendtlspolicies.yaml",
    "crds/gateway.networking.k8s.io_gatewayclasses.yaml",
    "crds/gateway.networking.k8s.io_gateways.yaml",
    "crds/gateway.networking.k8s.io_grpcroutes.yaml",
    "crds/gateway.networking.k8s.io_httproutes.yaml",
    "crds/gateway.networking.k8s.io_listenersets.yaml",
    "crds/gateway.networking.k8s.io_referencegrants.yaml",
    "crds/gateway.networking.k8s.io_tlsroutes.yaml",
    "crds/gateway.networking.x-k8s.io_xbackends.yaml",
    "crds/generators.external-secrets.io_fakes.yaml",
    "crds/generators.external-secrets.io_passwords.yaml",
    "crds/generators.external-secrets.io_sshkeys.yaml",
    "crds/helm.toolkit.fluxcd.io_helmreleases.yaml",
    "crds/image.toolkit.fluxcd.io_imagepolicies.yaml",
    "crds/image.toolkit.fluxcd.io_imagerepositories.yaml",
    "crds/image.toolkit.fluxcd.io_imageupdateautomations.yaml",
    "crds/kubernetes.m.crossplane.io_objects.yaml",
    "crds/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
    "crds/kyverno.io_cleanuppolicies.yaml",
    "crds/kyverno.io_globalcontextentries.yaml",
    "crds/machines.svm.io_instances.yaml",
    "crds/meta.pkg.crossplane.io_configurations.yaml",
    "crds/monitoring.coreos.com_podmonitors.yaml",
    "crds/monitoring.coreos.com_probes.yaml",
    "crds/monitoring.coreos.com_prometheusrules.yaml",
    "crds/monitoring.coreos.com_servicemonitors.yaml",
    "crds/networking.istio.io_destinationrules.yaml",
    "crds/networking.istio.io_envoyfilters.yaml",
    "crds/networking.istio.io_gateways.yaml",
    "crds/networking.istio.io_serviceentries.yaml",
    "crds/networking.istio.io_sidecars.yaml",
    "crds/networking.istio.io_virtualservices.yaml",
    "crds/networking.istio.io_workloadentries.yaml",
    "crds/networking.istio.io_workloadgroups.yaml",
    "crds/notification.toolkit.fluxcd.io_providers.yaml",
    "crds/notification.toolkit.fluxcd.io_receivers.yaml",
    "crds/ops.crossplane.io_operations.yaml",
    "crds/pkg.crossplane.io_functions.yaml",
    "crds/pkg.crossplane.io_imageconfigs.yaml",
    "crds/pkg.crossplane.io_locks.yaml",
    "crds/policies.kyverno.io_deletingpolicies.yaml",
    "crds/policies.kyverno.io_policyexceptions.yaml",
    "crds/protection.crossplane.io_clusterusages.yaml",
    "crds/pubsub.gcp.m.upbound.io_schemas.yaml",
    "crds/sagemaker.services.k8s.aws_modelpackagegroups.yaml",
    "crds/scheduling.volcano.sh_podgroups.yaml",
    "crds/scheduling.volcano.sh_queues.yaml",
    "crds/security.istio.io_authorizationpolicies.yaml",
    "crds/security.istio.io_peerauthentications.yaml",
    "crds/security.istio.io_requestauthentications.yaml",
    "crds/serving.knative.dev_configurations.yaml",
    "crds/serving.knative.dev_routes.yaml",
    "crds/serving.knative.dev_services.yaml",
    "crds/sinks.knative.dev_jobsinks.yaml",
    "crds/source.toolkit.fluxcd.io_gitrepositories.yaml",
    "crds/source.toolkit.fluxcd.io_helmcharts.yaml",
    "crds/source.toolkit.fluxcd.io_helmrepositories.yaml",
    "crds/source.toolkit.fluxcd.io_ocirepositories.yaml",
    "crds/sources.knative.dev_containersources.yaml",
    "crds/storage.gcp.upbound.io_defaultobjectacls.yaml",
    "crds/tekton.dev_pipelines.yaml",
    "crds/tekton.dev_stepactions.yaml",
    "crds/telemetry.istio.io_telemetries.yaml",
    "crds/triggers.tekton.dev_clusterinterceptors.yaml",
    "crds/triggers.tekton.dev_eventlisteners.yaml",
    "crds/triggers.tekton.dev_triggerbindings.yaml",
    "crds/triggers.tekton.dev_triggers.yaml",
    "crds/triggers.tekton.dev_triggertemplates.yaml",
)
"""Small enough for the annotation that a client-side apply leaves."""

HUGE = ("crds-huge/kyverno.io_policies.yaml.gz",)
"""Over 256 KiB, so that a client-side apply is refused, as upstream; they are created instead."""

OBJECTS_OF_EACH = 2
LEAST_KINDS = 80

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


Schema = dict[str, Any]


def differences(wanted: Any, live: Any, schema: Schema, path: str = "") -> list[str]:
    """What the server changed although it may only fill in defaults.

    Args:
        wanted: a value of the manifest.
        live: the same place in the object that the server returned.
        schema: of that place.
        path: where that is.
    """
    if isinstance(wanted, dict) and isinstance(live, dict):
        found = [
            f"{path}.{key} is {live[key]!r}" for key in live.keys() - wanted.keys() if not is_default(live[key], schema_of(schema, key))
        ]
        for key, value in wanted.items():
            if key in live:
                found += differences(value, live[key], schema_of(schema, key), f"{path}.{key}")
            elif value is not None or schema_of(schema, key).get("nullable"):
                found.append(f"{path}.{key} is gone")
        return found
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        pairs = enumerate(zip(wanted, live, strict=True))
        return [text for index, (one, other) in pairs for text in differences(one, other, schema.get("items", {}), f"{path}[{index}]")]
    if wanted is None and "default" in schema and not schema.get("nullable"):
        return differences(schema["default"], live, schema, path)
    return [] if type(wanted) is type(live) and wanted == live else [f"{path} is {live!r} instead of {wanted!r}"]


def is_default(live: Any, schema: Schema) -> bool:
    """Whether a value that no manifest has can have come from the schema."""
    return "default" in schema and not differences(schema["default"], live, schema)


def schema_of(schema: Schema, key: str) -> Schema:
    """The schema of a property."""
    additional = schema.get("additionalProperties")
    found: Schema = schema.get("properties", {}).get(key) or (additional if isinstance(additional, dict) else {})
    return found


def changes_of(wanted: dict[str, Any], live: dict[str, Any], definition: dict[str, Any]) -> list[str]:
    """`differences` between a manifest and the live object; what the server itself keeps in an object is left out."""
    spec = definition["spec"]
    (version,) = (one for one in spec["versions"] if wanted["apiVersion"] == f"{spec['group']}/{one['name']}")
    ignored = {"metadata"} | ({"status"} if "status" in version.get("subresources", {}) else set())
    # Defaults come from the version that a request is made in and, at each read, from the one that is stored.
    schemas = [one.get("schema", {}).get("openAPIV3Schema", {}) for one in (version, *(one for one in spec["versions"] if one["storage"]))]
    manifest, answer = ({key: value for key, value in one.items() if key not in ignored} for one in (wanted, live))
    requested, stored = (differences(manifest, answer, schema) for schema in schemas)
    found = [text for text in requested if text in stored]
    metadata = live["metadata"]
    for key, value in wanted["metadata"].items():
        own = {name: metadata.get(key, {}).get(name) for name in value} if isinstance(value, dict) else metadata.get(key)
        if value and own != value and (key != "namespace" or spec["scope"] == "Namespaced"):
            found.append(f".metadata.{key} is {own!r} instead of {value!r}")
    return [f"{live['kind']} {metadata['name']}: {text}" for text in found]


def word_of(wanted: Any, live: Any, *, nulls: bool = False) -> str:
    """What a second apply says: `configured` if kubectl has a patch to send, which changes nothing, else `unchanged`; as on any server.

    Its merge patch replaces lists as a whole, so that it always removes defaults inside a list. Its strategic merge patch,
    which it uses for definitions, also removes what generated files give as null (`nulls`), such as a `creationTimestamp`, and adds what
    Go leaves out when it writes a definition, such as an empty object.
    """
    return "configured" if is_patched(wanted, live, nulls=nulls) else "unchanged"


def is_patched(wanted: Any, live: Any, *, nulls: bool) -> bool:
    if isinstance(wanted, dict) and isinstance(live, dict):
        return any(is_patched(value, live.get(key), nulls=nulls) for key, value in wanted.items())
    return (isinstance(wanted, list) and wanted != live) or (nulls and (wanted is None) != (live is None))


def read_definition(path: Path) -> dict[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found


def objects_of(corpus: Path) -> tuple[list[Path], set[str]]:
    """The first valid objects of each definition, no two with one name, and the namespaces that they name.

    Where a webhook that is not here would have to convert them, only objects of the stored version are taken.
    """
    converted = {
        row["file"]: next(name for name, _, stored in row["versions"] if stored)
        for row in rows(corpus, "crds-index.jsonl")
        if row.get("conversion") == "Webhook"
    }
    chosen: list[Path] = []
    namespaces: set[str] = set()
    seen: dict[str, set[tuple[str, str]]] = {path: set() for path in (*DEFINITIONS, *HUGE)}
    for row in rows(corpus, "crs-index.jsonl"):
        names = seen.get(row["crd_file"])
        if names is None or len(names) == OBJECTS_OF_EACH or not row["valid"] or row.get("unknown_fields") or row.get("update_of"):
            continue
        if converted.get(row["crd_file"], row["version"]) != row["version"]:
            continue
        path = corpus / row["path"]
        try:
            metadata = decode(path)["metadata"]
        except yaml.YAMLError:  # go-yaml, which kubectl reads with, is more lenient
            continue
        name = (metadata.get("namespace", ""), metadata.get("name", ""))
        if name[1] and name not in names:
            names.add(name)
            namespaces.add(name[0])
            chosen.append(path)
    return chosen, namespaces - {"", "default"}


@pytest.mark.slow
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
    live = cluster.json("get", *plain)["items"]
    words = [word_of(decode(corpus / path), found, nulls=True) for path, found in zip(DEFINITIONS, live, strict=True)]
    again = lines_of(cluster.run("apply", *plain))
    assert [line for line, word in zip(again, words, strict=True) if not line.endswith(word)] == []

    objects, namespaces = objects_of(corpus)
    for namespace in sorted(namespaces):
        cluster.run("create", "namespace", namespace)
    applied = lines_of(cluster.run("apply", *files(objects)))
    assert [line for line in applied if not line.endswith("created")] == []
    assert len(applied) == len(objects)
    assert len({path.parent for path in objects}) > LEAST_KINDS
    live = cluster.json("get", *files(objects))["items"]
    schemas = {Path(path).name.partition(".yaml")[0]: read_definition(corpus / path) for path in (*DEFINITIONS, *HUGE)}
    pairs = [(decode(path), found, schemas[path.parent.name]) for path, found in zip(objects, live, strict=True)]
    assert [text for wanted, found, definition in pairs for text in changes_of(wanted, found, definition)] == []
    expected = [word_of(wanted, found) for wanted, found, _ in pairs]
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
