"""Webhook programs of real projects, in Go: cert-manager's and Gatekeeper's, unmodified, with their own manifests.

Each program runs outside, once for each cluster, with a kubeconfig of that cluster. The cluster is told the address of its program by the
external name of a Service, or by the URLs of the webhooks. The programs make their certificates, and write the authorities into the
configurations of their webhooks, themselves.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from e2e.binaries import UnavailableError, chosen_helm, helm_of
from e2e.conftest import COMMAND_SECONDS, Kubectl, ServerProcess
from e2e.goprograms import MODULES, built, folder_of
from tests.ports import reserve_port

KINDS: Final = "pods,services,deployments.apps,poddisruptionbudgets.policy"
PATIENCE: Final = 90.0
OFTEN: Final = 0.2
CERT_MANAGER: Final = MODULES / "certmanager"
CERT_MANAGER_MODULE: Final = "github.com/cert-manager/cert-manager"
GATEKEEPER: Final = MODULES / "gatekeeper"
GATEKEEPER_MODULE: Final = "github.com/open-policy-agent/gatekeeper/v3"


class Program:
    """A webhook program with the kubeconfig of a cluster. It may be killed and started again."""

    def __init__(self, folder: Path, command: list[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._log = folder / "program.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def kill(self) -> None:
        """Kill it, so that it closes nothing in order."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(COMMAND_SECONDS)
            self._process = None

    def log(self) -> str:
        """The end of what it has written."""
        return self._log.read_text()[-3000:]

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


class Tenant:
    """A cluster, and the program that serves its webhooks."""

    def __init__(self, server: ServerProcess, kubectl_binary: str, folder: Path, cluster: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        entry = {"server": f"{server.url}/clusters/{cluster}", "certificate-authority": str(server.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": entry}],
            "users": [{"name": "c", "user": {"token": server.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        self.kubeconfig.write_text(json.dumps(config))
        self.kubectl = Kubectl(kubectl_binary, self.kubeconfig, folder / "cache")
        self.port = reserve_port()
        self.program: Program | None = None

    def serve(self, namespace: str, service: str, *configurations: str) -> None:
        """Tell the cluster where the service of the webhooks is: at an external name, whose port is that of the webhooks."""
        spec = {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}
        self.kubectl.run("patch", "service", service, "-n", namespace, "--type=merge", "-p", json.dumps({"spec": spec}))
        for configuration in configurations:
            patch = []
            for index in range(len(self.kubectl.json("get", configuration)["webhooks"])):
                patch.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/service/port", "value": self.port})
                # A late answer on a busy machine must not fail the test.
                patch.append({"op": "add", "path": f"/webhooks/{index}/timeoutSeconds", "value": 30})
            self.kubectl.run("patch", configuration, "--type=json", "-p", json.dumps(patch))

    def run(self, command: list[str], **environment: str) -> None:
        """Start the program; it ends with the test."""
        self.program = Program(self.folder, command, environment)
        self.program.start()

    def apply(self, *objects: Mapping[str, Any]) -> str:
        return self.kubectl.run("apply", "--server-side", "-f", "-", stdin=manifest(*objects))

    def refused(self, *objects: Mapping[str, Any], arguments: tuple[str, ...] = ()) -> str:
        """The message to a client whose objects are refused."""
        return self.kubectl.run("create", *arguments, "-f", "-", stdin=manifest(*objects), fails=True)

    def accepted(self, *objects: Mapping[str, Any], arguments: tuple[str, ...] = ()) -> None:
        self.kubectl.run("create", *arguments, "-f", "-", stdin=manifest(*objects))

    def eventually(self, *arguments: str, stdin: str | None = None, until: Callable[[subprocess.CompletedProcess[str]], bool]) -> None:
        """Repeat a command of kubectl until its result is as expected."""
        deadline = time.monotonic() + PATIENCE
        while True:
            completed = self.kubectl.complete(*arguments, stdin=stdin)
            if until(completed):
                return
            log = self.program.log() if self.program is not None else ""
            assert self.program is None or not self.program.has_ended(), log
            assert time.monotonic() < deadline, f"{arguments}: {completed.stdout[-1000:]} {completed.stderr[-1000:]}\n{log}"
            time.sleep(OFTEN)


def manifest(*objects: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def succeeds(completed: subprocess.CompletedProcess[str]) -> bool:
    return completed.returncode == 0


def fails_with(text: str) -> Callable[[subprocess.CompletedProcess[str]], bool]:
    return lambda completed: completed.returncode != 0 and text in completed.stderr


@pytest.fixture
def tenants(new_server: Callable[..., ServerProcess], kubectl_binary: str, tmp_path: Path) -> Iterator[list[Tenant]]:
    """Two clusters of a server that serves the kinds of the manifests, and calls webhooks of this machine."""
    server = new_server("--webhook-networks", "127.0.0.0/8", "--builtin-kinds", KINDS).start()
    made = [Tenant(server, kubectl_binary, tmp_path / cluster, cluster) for cluster in ("one", "two")]
    yield made
    for tenant in made:
        if tenant.program is not None:
            tenant.program.kill()


def has_bundles(completed: subprocess.CompletedProcess[str]) -> bool:
    """Whether all webhooks of the configurations in a list know the authority of their program."""
    found = [one for item in json.loads(completed.stdout or "{}").get("items", []) for one in item["webhooks"]]
    return bool(found) and all(one["clientConfig"].get("caBundle") for one in found)


CONFIGURATIONS: Final = ("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "json")


def issuer(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def certificate(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"secretName": name, "dnsNames": ["example.com"], "issuerRef": {"name": "ours"}, **spec}
    return {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


@pytest.mark.xdist_group("go")
def test_cert_manager(tenants: list[Tenant], tmp_path: Path) -> None:
    """The chart is installed, CA injection works, objects are refused and changed, in each cluster for itself, and also after kill -9."""
    program = built(CERT_MANAGER, "build", ".")
    chart = folder_of(CERT_MANAGER, CERT_MANAGER_MODULE) / "deploy/charts/cert-manager"
    try:
        helm = helm_of(chosen_helm()[0])
    except UnavailableError as error:
        pytest.skip(f"no helm: {error}")
    one, two = tenants
    command = [str(helm), "template", "cert-manager", str(chart), "-n", "cert-manager"]
    command += ["--set", "crds.enabled=true", "--set", "startupapicheck.enabled=false"]
    # One cluster finds its webhooks by their Service, the other one by a URL.
    for tenant, more in ((one, []), (two, ["--set", f"webhook.url.host=localhost:{two.port}"])):
        chosen = [*command, *more]
        rendered = subprocess.run(chosen, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True, cwd=tmp_path).stdout
        tenant.kubectl.run("create", "namespace", "cert-manager")
        tenant.kubectl.run("apply", "--server-side", "-f", "-", stdin=rendered)
        name = "cert-manager-webhook"
        if tenant is one:
            kinds = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
            tenant.serve("cert-manager", name, *(f"{kind}/{name}" for kind in kinds))
        tenant.run(
            [
                str(program),
                f"--kubeconfig={tenant.kubeconfig}",
                f"--secure-port={tenant.port}",
                f"--healthz-port={reserve_port()}",
                "--metrics-listen-address=0",
                "--dynamic-serving-ca-secret-namespace=cert-manager",
                f"--dynamic-serving-ca-secret-name={name}-ca",
                f"--dynamic-serving-dns-names={name},{name}.cert-manager,{name}.cert-manager.svc,localhost",
            ]
        )
    for tenant in tenants:
        tenant.eventually(*CONFIGURATIONS, until=has_bundles)
        check = manifest(issuer("check", selfSigned={}))
        tenant.eventually("create", "--dry-run=server", "-f", "-", stdin=check, until=succeeds)
    bundles = [tenant.kubectl.json("get", "validatingwebhookconfiguration", "cert-manager-webhook") for tenant in tenants]
    first, second = (one["webhooks"][0]["clientConfig"]["caBundle"] for one in bundles)
    assert first != second

    for tenant in tenants:
        refused = tenant.refused(issuer("ours"))
        assert 'admission webhook "webhook.cert-manager.io" denied the request: ' in refused
        assert "at least one issuer must be configured" in refused
        tenant.accepted(issuer("ours", selfSigned={}))
        refused = tenant.refused(certificate("web", duration="1h", renewBefore="2h"))
        assert "spec.renewBefore: Invalid value" in refused
        tenant.accepted(certificate("web"))
    # Who requests a certificate is what the server says, not what the object does.
    request = {
        "apiVersion": "cert-manager.io/v1",
        "kind": "CertificateRequest",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"request": signing_request(), "issuerRef": {"name": "ours"}, "username": "root"},
    }
    jane = ("--as=jane", "--as-group=ops", "--as-group=system:authenticated")
    for tenant in tenants:
        tenant.apply(
            *permissions("requests", "certificaterequests", "certificaterequests/status", verbs=["create", "get", "patch", "update"])
        )
        tenant.accepted(request, arguments=jane)
        spec = tenant.kubectl.json("get", "certificaterequest", "web")["spec"]
        assert (spec["username"], sorted(spec["groups"])) == ("jane", ["ops", "system:authenticated"])
    # The webhook asks the cluster of the request who may approve: in one of the two clusters jane may.
    rule = {
        "apiGroups": ["cert-manager.io"],
        "resources": ["signers"],
        "verbs": ["approve"],
        "resourceNames": ["issuers.cert-manager.io/*"],
    }
    one.apply(*cluster_permissions("approve", rule))
    condition = {"type": "Approved", "status": "True", "reason": "Jane", "message": "fine", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    status = json.dumps({"status": {"conditions": [condition]}})
    approval = ("patch", "certificaterequest", "web", "--subresource=status", "--type=merge", *jane, "-p", status)
    one.eventually(*approval, until=succeeds)
    assert 'user "jane" does not have permissions to set approved/denied conditions' in two.kubectl.run(*approval, fails=True)

    assert one.program is not None
    one.program.kill()
    closed = one.refused(issuer("while-dead", selfSigned={}))
    assert (
        'failed calling webhook "webhook.cert-manager.io": failed to call webhook: Post "https://cert-manager-webhook.cert-manager.svc'
        in closed
    )
    assert "connect: connection refused" in closed
    assert "at least one issuer" in two.refused(issuer("while-dead"))
    policy = '[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "%s"}]'
    patch = ("patch", "validatingwebhookconfiguration", "cert-manager-webhook", "--type=json", "-p")
    one.kubectl.run(*patch, policy % "Ignore")
    one.accepted(issuer("while-dead"))
    assert "at least one issuer" in two.refused(issuer("while-dead"))
    one.kubectl.run(*patch, policy % "Fail")
    one.program.start()
    again = manifest(issuer("after"))
    one.eventually("create", "--dry-run=server", "-f", "-", stdin=again, until=fails_with("at least one issuer must be configured"))


def signing_request() -> str:
    """A request for a certificate, as in the `request` of a CertificateRequest."""
    names = x509.SubjectAlternativeName([x509.DNSName("example.com")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(names, critical=False)
    return base64.b64encode(
        builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    ).decode()


def permissions(name: str, *resources: str, verbs: list[str]) -> list[dict[str, Any]]:
    """jane may use resources of cert-manager in the cluster."""
    return cluster_permissions(name, {"apiGroups": ["cert-manager.io"], "resources": list(resources), "verbs": verbs})


def cluster_permissions(name: str, rule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """jane may do what a rule says, and enter the cluster."""
    group = "rbac.authorization.k8s.io"
    access = {"nonResourceURLs": ["/"], "verbs": ["access"]}
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule, access]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
    }
    return [role, binding]


def required_label(label: str) -> dict[str, Any]:
    """Config maps need a label."""
    match = {"kinds": [{"apiGroups": [""], "kinds": ["ConfigMap"]}], "namespaces": ["default"]}
    return {
        "apiVersion": "constraints.gatekeeper.sh/v1beta1",
        "kind": "K8sRequiredLabels",
        "metadata": {"name": "maps"},
        "spec": {"match": match, "parameters": {"labels": [label]}},
    }


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "labels": labels}}


@pytest.mark.xdist_group("go")
def test_gatekeeper(tenants: list[Tenant]) -> None:
    """The manifest is installed, constraints refuse and mutators change objects of one cluster, failure policies hold after kill -9."""
    program = built(GATEKEEPER, "build", GATEKEEPER_MODULE, large=True)
    files = folder_of(GATEKEEPER, GATEKEEPER_MODULE)
    one, two = tenants
    for tenant in tenants:
        tenant.kubectl.run("apply", "--server-side", "-f", str(files / "deploy/gatekeeper.yaml"))
        names = (f"{kind}webhookconfiguration/gatekeeper-{kind}-webhook-configuration" for kind in ("mutating", "validating"))
        tenant.serve("gatekeeper-system", "gatekeeper-webhook-service", *names)
        tenant.run(
            [
                str(program),
                f"--kubeconfig={tenant.kubeconfig}",
                "--host=127.0.0.1",
                f"--port={tenant.port}",
                f"--cert-dir={tenant.folder}",
                f"--health-addr=127.0.0.1:{reserve_port()}",
                f"--prometheus-port={reserve_port()}",
                "--debug-use-fake-pod",
                *(f"--operation={operation}" for operation in ("webhook", "mutation-webhook", "mutation-controller", "generate")),
            ],
            POD_NAMESPACE="gatekeeper-system",
        )
    for tenant in tenants:
        # A node would mount the secret that the program fills.
        secret = ("get", "secret", "gatekeeper-webhook-server-cert", "-n", "gatekeeper-system", "-o", "json")
        tenant.eventually(*secret, until=lambda completed: "tls.key" in completed.stdout)
        for name, value in json.loads(tenant.kubectl.run(*secret))["data"].items():
            (tenant.folder / name).write_bytes(base64.b64decode(value))
    for tenant, label in ((one, "color"), (two, "taste")):
        tenant.eventually(*CONFIGURATIONS, until=has_bundles)
        tenant.kubectl.run("apply", "-f", str(files / "demo/basic/templates/k8srequiredlabels_template.yaml"))
        constraint = manifest(required_label(label))
        # The program makes a CRD of the template.
        tenant.eventually("apply", "--server-side", "-f", "-", stdin=constraint, until=succeeds)
        tenant.eventually(
            "create",
            "--dry-run=server",
            "-f",
            "-",
            stdin=manifest(config_map("check")),
            until=fails_with('admission webhook "validation.gatekeeper.sh" denied the request: [maps] you must provide labels'),
        )
    assert '{"color"}' in one.refused(config_map("red", taste="sweet"))
    assert '{"taste"}' in two.refused(config_map("red", color="red"))
    one.accepted(config_map("red", color="red"))
    refused = one.kubectl.run("label", "configmap", "red", "color-", fails=True)
    assert '[maps] you must provide labels: {"color"}' in refused
    # The program validates its own kinds, with reviews of their CRDs.
    broken = {**required_label("x"), "metadata": {"name": "broken"}}
    broken["spec"] = {**broken["spec"], "enforcementAction": "sometimes"}
    assert "sometimes" in one.refused(broken)

    mutator = {
        "apiVersion": "mutations.gatekeeper.sh/v1",
        "kind": "AssignMetadata",
        "metadata": {"name": "color"},
        "spec": {
            "match": {"scope": "Namespaced", "kinds": [{"apiGroups": [""], "kinds": ["ConfigMap"]}]},
            "location": "metadata.labels.color",
            "parameters": {"assign": {"value": "blue"}},
        },
    }
    one.apply(mutator)
    # Validating webhooks see what mutating ones have made.
    one.eventually("create", "--dry-run=server", "-f", "-", stdin=manifest(config_map("blue")), until=succeeds)
    one.accepted(config_map("blue"))
    assert one.kubectl.json("get", "configmap", "blue")["metadata"]["labels"] == {"color": "blue"}
    assert '{"taste"}' in two.refused(config_map("blue"))

    exempt = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free", "labels": {"admission.gatekeeper.sh/ignore": "yes"}}}
    assert "Only exempt namespace can have the admission.gatekeeper.sh/ignore label" in one.refused(exempt)
    assert one.program is not None
    one.program.kill()
    assert 'failed calling webhook "check-ignore-label.gatekeeper.sh"' in one.refused(exempt)
    one.accepted(config_map("green"))
    assert '{"taste"}' in two.refused(config_map("green"))
    two.accepted(config_map("green", taste="sour"))
