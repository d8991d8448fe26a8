"""Kubeconfigs of users: certificates of one cluster, logins by OpenID Connect, merging."""

from __future__ import annotations

import base64
import datetime as dt
import shlex
import stat

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from kcp_py.apis.certificates.binding import binding_of
from kcp_py.cli.credentialrequests import REQUESTS, client_certificate
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import RemoteError, RemoteServer, load_context
from kcp_py.cli.root import run
from tests.cli.conftest import running_server

MAPS = "api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a server with two clusters that runs for the tests of this module."""
    with running_server(tmp_path_factory, "-m", "kcp_py", settings=["--storage", "memory"]) as kubeconfig:
        yield kubeconfig


@pytest.fixture
def admin(running):
    """The administrator's connection."""
    with RemoteServer(load_context(str(running), None)) as server:
        yield server


def certificate_of(document):
    return x509.load_pem_x509_certificate(base64.b64decode(document["users"][0]["user"]["client-certificate-data"]))


def status_of(file, path):
    """The HTTP status of a GET with the credentials of a kubeconfig."""
    with RemoteServer(load_context(str(file), None)) as server:
        try:
            server.request("GET", path)
        except RemoteError as error:
            return error.status
    return 200


def test_a_kubeconfig_of_a_user(command, running, tmp_path):
    """It has a new certificate for this cluster, nothing of the administrator's, and is valid in this cluster alone."""
    for name, group in (("team-a", "team-a"), ("team-b", "team-b")):
        assert command("create", name, "--admin-group", group)[0] == 0
    file = tmp_path / "alice.kubeconfig"
    code, out, err = command("kubeconfig", "team-a", "--user", "alice", "--group", "team-a", "--namespace", "shop", "-o", str(file))
    assert (code, out) == (0, f"kubeconfig written to {file}\n")
    assert err.startswith("the certificate of alice for logical cluster team-a expires at ")
    document = yaml.safe_load(file.read_text())
    certificate = certificate_of(document)
    binding = binding_of(certificate)
    assert binding is not None
    assert binding.cluster == "team-a"
    assert certificate.subject.rfc4514_string() == "CN=alice,O=team-a"
    assert abs(certificate.not_valid_after_utc - dt.datetime.now(dt.UTC) - dt.timedelta(hours=24)) < dt.timedelta(minutes=10)
    assert document["contexts"] == [{"name": "alice@team-a", "context": {"cluster": "team-a", "user": "alice@team-a", "namespace": "shop"}}]
    assert [entry["name"] for entry in document["users"]] == ["alice@team-a"]
    for entry in yaml.safe_load(running.read_text())["users"]:
        for secret in entry["user"].values():
            assert secret not in file.read_text()
    for name in ("team-b", "nowhere", "root", "*"):
        assert status_of(file, f"/clusters/{name}/{MAPS}") == 401
    assert status_of(file, f"/clusters/team-a/{MAPS}") == 200
    assert status_of(file, "/clusters/team-a/api/v1/secrets") == 200


def test_a_cluster_that_is_made_again_knows_no_earlier_certificate(command, tmp_path):
    """The certificate is for the cluster that was deleted."""
    command("create", "again", "--admin", "bob")
    file = tmp_path / "bob.kubeconfig"
    assert command("kubeconfig", "again", "--user", "bob", "-o", str(file))[0] == 0
    assert status_of(file, f"/clusters/again/{MAPS}") == 200
    assert command("delete", "again", "--yes", "--grace-period", "0")[0] == 0
    assert status_of(file, f"/clusters/again/{MAPS}") == 401
    command("create", "again", "--admin", "bob")
    assert status_of(file, f"/clusters/again/{MAPS}") == 401
    assert command("kubeconfig", "again", "--user", "bob", "-o", str(file), "--force")[0] == 0
    assert status_of(file, f"/clusters/again/{MAPS}") == 200


def test_an_administrator_of_the_cluster_hands_out_credentials(command, tmp_path):
    """With the own certificate of a cluster its administrator makes kubeconfigs for it; a member who may not approve cannot."""
    command("create", "own", "--admin", "carol")
    command("grant", "own", "--user", "dave", "--role", "view")
    files = {name: tmp_path / name for name in ("carol", "dave", "eve")}
    for name in ("carol", "dave"):
        assert command("kubeconfig", "own", "--user", name, "-o", str(files[name]))[0] == 0

    def make(by):
        return run(["cluster", "kubeconfig", "own", "--user", "eve", "-o", str(files["eve"]), "--force", "--kubeconfig", str(files[by])])

    assert make("carol") == 0
    assert make("dave") == 1
    assert status_of(files["eve"], f"/clusters/own/{MAPS}") == 403


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--user", "system:admin"], 'signer with user "system:admin" is not allowed'),
        (["--user", "x", "--group", "system:masters"], "signer with system:masters group is not allowed"),
        (["--user", "a\nb"], "names must have 1 to 1024 bytes of printable characters"),
    ],
)
def test_names_that_the_server_refuses(command, flags, message):
    """The reason of the server is the message."""
    command("create", "named")
    code, out, err = command("kubeconfig", "named", *flags)
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--user", ""], "--user: the value is empty"),
        (["--user", "a", "--service-account", "b/c"], "--user and --service-account exclude each other"),
        (["--group", "g"], "--group needs --user"),
        (["--expires", "1h"], "--expires needs --user or --service-account"),
        (["--user", "a", "--expires", "5m"], "--expires: it must be at least 10m"),
        (["--user", "a", "--expires", "soon"], "--expires: "),
        (["--user", "a" * 65], "--user and --group: names in certificates have 1 to 64 bytes"),
        (["--service-account", "b"], '--service-account: "b" is not NAMESPACE/NAME'),
        (["--oidc", "https://x"], "--oidc and --oidc-client-id belong together"),
        (["--oidc", "http://x", "--oidc-client-id", "c"], '--oidc: "http://x" is not a URL such as'),
        (["-o", "f", "--merge=g"], "--merge and --output exclude each other"),
        (["--merge="], "--merge: the path is empty"),
        (["--by-host"], "--by-host: 127.0.0.1 is an address; start the server with --external-hostname and --cluster-hostnames"),
    ],
)
def test_flags_that_do_not_fit(command, flags, message):
    """One line names the flag."""
    code, out, err = command("kubeconfig", "root", *flags)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")


def test_a_login_by_openid_connect(command):
    """The kubeconfig calls the plugin oidc-login, and has no credential."""
    flags = ["--oidc", "https://issuer.example", "--oidc-client-id", "kubernetes", "--oidc-scope", "groups"]
    code, out, _ = command("kubeconfig", "root", *flags)
    assert code == 0
    document = yaml.safe_load(out)
    (user,) = document["users"]
    assert (user["name"], list(user["user"])) == ("oidc@root", ["exec"])
    assert user["user"]["exec"]["apiVersion"] == "client.authentication.k8s.io/v1"
    assert user["user"]["exec"]["args"] == [
        "oidc-login",
        "get-token",
        "--oidc-issuer-url=https://issuer.example",
        "--oidc-client-id=kubernetes",
        "--oidc-extra-scope=groups",
    ]


def test_merging(command, tmp_path):
    """The context is added to the file; a renewal replaces it, and the current context stays."""
    file = tmp_path / "config"
    command("create", "merged", "--admin", "bob")
    assert command("kubeconfig", "merged", f"--merge={file}") == (0, f"context merged written to {file}\n", "")
    for _ in range(2):
        code, out, err = command("kubeconfig", "merged", "--user", "bob", f"--merge={file}")
        assert (code, out) == (0, f"context bob@merged written to {file}\n")
        assert err.startswith("kubectl config use-context bob@merged switches to it\nthe certificate of bob")
    document = yaml.safe_load(file.read_text())
    assert [entry["name"] for entry in document["contexts"]] == ["merged", "bob@merged"]
    assert [entry["name"] for entry in document["clusters"]] == ["merged"]
    assert document["current-context"] == "merged"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("user", ["o'hara", 'say "hi": {x}', "- *anchor", "../../etc/passwd", "Zoë 東京", "$(id)", "null", "# no", "a@b@c"])
def test_odd_names_in_a_merged_file(command, tmp_path, user):
    """Whatever a user is called, the file stays readable, with its other content, and kubectl's command can be pasted."""
    file = tmp_path / "config"
    other = {"name": "other", "user": {"token": "t", "own": [1]}, "note": "kept"}
    file.write_text(yaml.safe_dump({"users": [other], "current-context": "other", "contexts": [{"name": "other", "context": {}}]}))
    command("create", "odd", "--if-not-exists")
    code, _, err = command("kubeconfig", "odd", "--user", user, f"--merge={file}")
    assert code == 0, err
    assert shlex.split(err.splitlines()[0])[:4] == ["kubectl", "config", "use-context", f"{user}@odd"]
    document = yaml.safe_load(file.read_text())
    assert document["users"][0] == other
    assert document["contexts"][1] == {"name": f"{user}@odd", "context": {"cluster": "odd", "user": f"{user}@odd"}}
    (name,) = certificate_of({"users": document["users"][1:]}).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == user
    assert [*tmp_path.iterdir()] == [file]


def test_what_a_kubeconfig_says_of_the_server_is_not_handed_on(running, tmp_path):
    """The password of the caller's proxy and the notes of its programs stay with the caller."""
    document = yaml.safe_load(running.read_text())
    for entry in document["clusters"]:
        entry["cluster"] |= {
            "proxy-url": "http://me:secret@proxy.example:3128",
            "extensions": [{"name": "x", "extension": {"password": "hidden"}}],
        }
    mine, made = tmp_path / "mine", tmp_path / "made"
    mine.write_text(yaml.safe_dump(document))
    assert run(["cluster", "kubeconfig", "root", "--user", "dora", "-o", str(made), "--kubeconfig", str(mine)]) == 0
    cluster = yaml.safe_load(made.read_text())["clusters"][0]["cluster"]
    assert sorted(cluster) == ["certificate-authority-data", "proxy-url", "server"]
    assert cluster["proxy-url"] == "http://proxy.example:3128"
    assert run(["cluster", "kubeconfig", "root", "-o", str(made), "--force", "--kubeconfig", str(mine)]) == 0
    assert yaml.safe_load(made.read_text())["clusters"][0]["cluster"]["proxy-url"] == "http://me:secret@proxy.example:3128"


def test_by_host(running, tmp_path):
    """The host names the cluster, and the URL has no path."""
    file = tmp_path / "named"
    file.write_text(running.read_text().replace("https://127.0.0.1", "https://localhost"))
    made = tmp_path / "made"
    assert run(["cluster", "kubeconfig", "root", "--by-host", "-o", str(made), "--kubeconfig", str(file)]) == 0
    server = yaml.safe_load(made.read_text())["clusters"][0]["cluster"]["server"]
    assert server.startswith("https://root.localhost:")
    assert server.count("/") == 2


def test_requests_are_cleaned_up(admin, command):
    """No request remains when its certificate has been fetched."""
    command("create", "clean")
    credential = client_certificate(admin, "clean", "bob", groups=["dev"], seconds=600)
    assert sorted(credential.user) == ["client-certificate-data", "client-key-data"]
    assert credential.expires.endswith("Z")
    assert admin.request("GET", f"/clusters/clean/{REQUESTS}")["items"] == []


def test_a_signer_that_does_not_answer(tmp_path_factory):
    """The command gives up and names the controller that should have signed."""
    settings = ["--storage", "memory", "--controllers=-csrsigning,*"]
    with (
        running_server(tmp_path_factory, "-m", "kcp_py", settings=settings) as kubeconfig,
        RemoteServer(load_context(str(kubeconfig), None)) as server,
        pytest.raises(CommandError, match="no certificate after 0s: is the certificatesigningrequest-signing-controller running"),
    ):
        client_certificate(server, "root", "bob", groups=[], seconds=600, patience=0)


def test_a_kubeconfig_of_a_service_account(command, tmp_path):
    """It has a token of the account, which opens this cluster and no permissions elsewhere."""
    command("create", "robots")
    assert command("grant", "robots", "--service-account", "default/default", "--role", "view")[0] == 0
    file = tmp_path / "robot.kubeconfig"
    code, _, err = command("kubeconfig", "robots", "--service-account", "default/default", "--expires", "1h", "-o", str(file))
    assert code == 0
    assert err.startswith("the token of service account default/default for logical cluster robots expires at ")
    document = yaml.safe_load(file.read_text())
    assert [list(entry["user"]) for entry in document["users"]] == [["token"]]
    assert document["current-context"] == "default:default@robots"
    assert status_of(file, f"/clusters/robots/{MAPS}") == 200
    assert status_of(file, f"/clusters/root/{MAPS}") == 403
    assert command("kubeconfig", "robots", "--service-account", "default/missing")[0] == 1
