"""The administrator's token and kubeconfig."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import stat
import subprocess

import pytest
import yaml

from kcp_py.cli.credentials import ensure_token_file, write_kubeconfig

CONTEXTS = {
    "root": ("https://127.0.0.1:7000/clusters/root", "kcp-admin"),
    "base": ("https://127.0.0.1:7000", "kcp-admin"),
    "system:admin": ("https://127.0.0.1:7000/clusters/system:admin", "shard-admin"),
    "shard-base": ("https://127.0.0.1:7000", "shard-admin"),
}


def test_the_token_file_is_what_kube_apiserver_reads(certified):
    """One line of token, user, uid and groups; 256 bits of randomness; for its owner only; reused later."""
    token = ensure_token_file(certified)
    ((written, user, uid, groups),) = csv.reader(certified.admin_token_file.read_text().splitlines())
    assert (written, user, groups) == (token, "shard-admin", "system:masters")
    assert uid
    assert len(token) >= 43
    assert stat.S_IMODE(certified.admin_token_file.stat().st_mode) == 0o600
    assert ensure_token_file(certified) == token


def test_tokens_differ_between_servers(certified, tmp_path):
    """No two servers share a token."""
    other = dataclasses.replace(certified, root_directory=tmp_path)
    assert ensure_token_file(certified) != ensure_token_file(other)


def test_a_token_file_without_the_administrator_is_refused(certified):
    """A file of another origin is reported and not overwritten."""
    certified.admin_token_file.write_text("t,somebody,1\n")
    with pytest.raises(ValueError, match="no token of shard-admin"):
        ensure_token_file(certified)
    assert certified.admin_token_file.read_text() == "t,somebody,1\n"
    certified.admin_token_file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"admin-tokens\.csv: not UTF-8 text"):
        ensure_token_file(certified)


def test_contexts_are_those_of_kcp(certified):
    """Contexts, URLs and users as kcp writes them; `root` is current."""
    assert write_kubeconfig(certified, port=7000)
    document = yaml.safe_load(certified.kubeconfig_file.read_text())
    assert document["current-context"] == "root"
    clusters = {entry["name"]: entry["cluster"]["server"] for entry in document["clusters"]}
    found = {entry["name"]: (clusters[entry["context"]["cluster"]], entry["context"]["user"]) for entry in document["contexts"]}
    assert found == CONTEXTS
    users = {entry["name"]: set(entry["user"]) for entry in document["users"]}
    assert users == {"kcp-admin": {"client-certificate-data", "client-key-data"}, "shard-admin": {"token"}}
    assert stat.S_IMODE(certified.kubeconfig_file.stat().st_mode) == 0o600


def test_it_is_written_again_only_when_it_would_differ(certified):
    """A second start on the same port leaves the file; another port is written."""
    write_kubeconfig(certified, port=7000)
    assert not write_kubeconfig(certified, port=7000)
    assert write_kubeconfig(certified, port=7001)
    assert "127.0.0.1:7001/" in certified.kubeconfig_file.read_text()


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_python_client_reads_it(certified, context):
    """The official Python client takes each context."""
    kubernetes = pytest.importorskip("kubernetes")
    write_kubeconfig(certified, port=7000)
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(certified.kubeconfig_file), context, client_configuration=configuration)
    url, user = CONTEXTS[context]
    assert configuration.host == url
    assert bool(configuration.cert_file) == (user == "kcp-admin")
    assert bool(configuration.api_key) == (user == "shard-admin")


def test_kubectl_reads_it(certified):
    """kubectl understands the file and its current context."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl in PATH")
    write_kubeconfig(certified, port=7000)
    command = [kubectl, "--kubeconfig", str(certified.kubeconfig_file), "config", "view", "--minify", "-o", "json"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert document["current-context"] == "root"
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7000/clusters/root"


def test_with_a_given_certificate_clients_trust_its_chain(certified, tmp_path):
    """The authority in the kubeconfig is then the given file, since the server's own has not issued it."""
    given = tmp_path / "tls.crt"
    given.write_bytes(certified.serving_cert_file.read_bytes())
    options = dataclasses.replace(certified, tls_cert_file=given, tls_private_key_file=certified.serving_key_file)
    write_kubeconfig(options, port=7000)
    import base64

    document = yaml.safe_load(options.kubeconfig_file.read_text())
    assert base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]) == given.read_bytes()
