"""The sources of settings, and the messages about invalid ones."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest

from kcp_py.options import SETTINGS, Options, OptionsError, load_options, unknown_environment_variables
from kcp_py.options.loading import configuration_schema

HEAD = "apiVersion: config.kcp-py.io/v1alpha1\nkind: ServerConfiguration\n"


@pytest.fixture
def configuration(tmp_path):
    """Writes a configuration file with these lines after its head, and returns its path."""

    def write(lines: str, head: str = HEAD) -> str:
        path = tmp_path / "server.yaml"
        path.write_text(head + lines, "utf-8")
        return str(path)

    return write


def load(flags=None, environ=None, config_file=None):
    return load_options(flags=flags or {}, environ=environ or {}, config_file=config_file)


def test_nothing_given_means_the_defaults():
    """Without any source the options are the defaults of the class."""
    assert load() == Options()


@pytest.mark.parametrize(
    ("flag", "variable", "key", "port"),
    [
        pytest.param("1", "2", "3", 1, id="flag wins"),
        pytest.param(None, "2", "3", 2, id="then the environment"),
        pytest.param(None, None, "3", 3, id="then the file"),
        pytest.param(None, None, None, 6443, id="then the default"),
        pytest.param("1", None, "3", 1, id="flag over file"),
        pytest.param("1", "2", None, 1, id="flag over environment"),
    ],
)
def test_precedence(configuration, flag, variable, key, port):
    """A flag wins over the environment, that over the file, that over the default."""
    options = load(
        flags={"secure_port": flag} if flag else {},
        environ={"KCP_PY_SECURE_PORT": variable} if variable else {},
        config_file=configuration(f"securePort: {key}\n" if key else ""),
    )
    assert options.secure_port == port


def test_each_setting_is_taken_from_the_source_that_has_it(configuration):
    """Sources complement each other setting by setting."""
    path = configuration(
        "etcdServers: [https://a:1, https://b:2]\nshutdownGracePeriod: 1m\nmaxRequestBodyBytes: 1024\nanonymousAuth: false\n"
    )
    options = load({"storage": "etcd"}, {"KCP_PY_ETCD_PREFIX": "/kcp"}, path)
    assert options.storage == "etcd"
    assert options.etcd_prefix == "/kcp"
    assert options.etcd_servers == ("https://a:1", "https://b:2")
    assert options.shutdown_grace_period == 60
    assert options.max_request_body_bytes == 1024
    assert options.anonymous_auth is False


def test_the_environment_may_name_the_file(configuration):
    """KCP_PY_CONFIG stands for --config, which wins over it."""
    path = configuration("securePort: 5\n")
    assert load(environ={"KCP_PY_CONFIG": path}).secure_port == 5
    assert load(environ={"KCP_PY_CONFIG": "absent"}, config_file=path).secure_port == 5
    assert load(environ={"KCP_PY_CONFIG": ""}) == Options()


def test_an_empty_header_switches_the_header_off():
    """An empty value is a value where a setting may be empty."""
    assert load(environ={"KCP_PY_CLUSTER_HEADER": ""}).cluster_header == ""


def test_there_may_be_no_default_cluster():
    """An empty value means that each request has to name its cluster."""
    assert load(environ={"KCP_PY_DEFAULT_CLUSTER": ""}).default_cluster == ""


FLAG_ERRORS = [
    ("secure_port", "70000", "--secure-port: 70000 is not between 0 and 65535"),
    ("secure_port", "x", '--secure-port: "x" is not a whole number'),
    ("storage", "mysql", '--storage: "mysql" is not one of sqlite, memory, etcd'),
    ("shutdown_grace_period", "30", '--shutdown-grace-period: "30" is not a duration such as 30s, 5m or 1h30m'),
    ("max_request_body_bytes", "3MB", '--max-request-body-bytes: "3MB" is not a size such as 3Mi or 65536'),
    ("max_request_body_bytes", "0Mi", '--max-request-body-bytes: "0Mi" is not above zero'),
    ("request_timeout", "0", '--request-timeout: "0" is not above zero'),
    ("request_header_timeout", "0s", '--request-header-timeout: "0s" is not above zero'),
    ("root_directory", "a\udcff", "--root-directory: 'a\\udcff' is not UTF-8"),
    ("bind_address", "localhost", '--bind-address: "localhost" is not an IP address'),
    ("external_hostname", "a_b", '--external-hostname: "a_b" is neither a host name nor an IP address'),
    ("default_cluster", "root:org", '--default-cluster: "root:org" is not the name of a logical cluster'),
    ("default_cluster", "*", '--default-cluster: "*" is not the name of a logical cluster'),
    ("cluster_header", "a b", '--cluster-header: "a b" is not the name of an HTTP header'),
    ("etcd_prefix", "registry", '--etcd-prefix: "registry" is not a key prefix such as /registry'),
    ("anonymous_auth", "yes", '--anonymous-auth: "yes" is not true or false'),
    ("oidc_required_claim", "team", '--oidc-required-claim: "team" is not a pair such as name=value'),
    ("root_directory", "", "--root-directory: the path is empty"),
    ("tls_min_version", "VersionTLS11", '--tls-min-version: "VersionTLS11" is not one of VersionTLS12, VersionTLS13'),
]


@pytest.mark.parametrize(("name", "text", "message"), FLAG_ERRORS, ids=lambda value: str(value)[:30])
def test_a_wrong_flag_is_one_line_that_names_the_flag(name, text, message):
    """The message begins with the flag and contains the expected form."""
    with pytest.raises(OptionsError) as caught:
        load({name: text})
    assert str(caught.value) == message


def test_options_of_one_issuer_need_each_other_and_exclude_the_file():
    """Issuer and client are given together, and the file of issuers replaces all of them."""
    together = "--oidc-ca-file: oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
    with pytest.raises(OptionsError, match=re.escape(together)):
        load({"oidc_ca_file": "ca.pem"})
    issuer = {"oidc_issuer_url": "https://idp.example", "oidc_client_id": "kcp"}
    assert load(issuer).oidc_client_id == "kcp"
    exclusive = "--oidc-issuer-url: authentication-config file and oidc-* flags are mutually exclusive"
    with pytest.raises(OptionsError, match=re.escape(exclusive)):
        load({**issuer, "authentication_config": "authentication.yaml"})


def test_a_wrong_variable_is_named():
    """The message begins with the environment variable."""
    with pytest.raises(OptionsError, match=r"^KCP_PY_STORAGE: \"x\" is not one of"):
        load(environ={"KCP_PY_STORAGE": "x"})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param("securePorts: 1\n", "securePorts: no such key; did you mean securePort?", id="plural"),
        pytest.param("secureport: 1\n", "secureport: no such key; did you mean securePort?", id="case"),
        pytest.param("etcd-servers: []\n", "etcd-servers: no such key; did you mean etcdServers?", id="flag spelling"),
        pytest.param("wholly: 1\n", "wholly: no such key", id="nothing near"),
        pytest.param("securePort: 1\nstorage: memory\nsecurePort: 2\n", "securePort: given twice", id="twice"),
        pytest.param("3: 1\n", "3: no such key", id="number"),
        pytest.param("securePort: '1'\n", "securePort: '1' is not of type 'integer'", id="type"),
        pytest.param("securePort: 70000\n", "securePort: 70000 is greater than the maximum of 65535", id="range"),
        pytest.param("storage: mysql\n", "storage: 'mysql' is not one of ['sqlite', 'memory', 'etcd']", id="choice"),
        pytest.param("requestTimeout: 1d\n", 'requestTimeout: "1d" is not a duration such as 30s, 5m or 1h30m', id="duration"),
        pytest.param("controllers: foo\n", "controllers: 'foo' is not of type 'array'", id="list"),
        pytest.param("controllers: ['a,b']\n", "controllers: 0: 'a,b' does not match '^[^,]*$'", id="comma in a list"),
        pytest.param("anonymousAuth: 'no'\n", "anonymousAuth: 'no' is not of type 'boolean'", id="boolean"),
    ],
)
def test_a_wrong_key_names_the_file_and_the_key(configuration, lines, message):
    """The message begins with the file and the key, and proposes the nearest key."""
    path = configuration(lines)
    with pytest.raises(OptionsError) as caught:
        load(config_file=path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        pytest.param("", "not a YAML object of kind ServerConfiguration", id="empty"),
        pytest.param("- a\n", "not a YAML object of kind ServerConfiguration", id="list"),
        pytest.param("kind: ServerConfiguration\n", "'apiVersion' is a required property", id="no apiVersion"),
        pytest.param(HEAD.replace("v1alpha1", "v1"), "apiVersion: 'config.kcp-py.io/v1alpha1' was expected", id="other version"),
        pytest.param(HEAD.replace("ServerC", "C"), "kind: 'ServerConfiguration' was expected", id="other kind"),
        pytest.param("a: [", "while parsing a flow node", id="no YAML"),
        pytest.param("a: !!python/name:os.system\n", "could not determine a constructor", id="no Python objects"),
    ],
)
def test_a_file_of_another_kind_is_refused(configuration, head, message):
    """Only a YAML object of this kind and version is a configuration; the message is one line."""
    path = configuration("", head)
    with pytest.raises(OptionsError) as caught:
        load(config_file=path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_every_fault_is_told_at_once(configuration):
    """Unknown and repeated keys, wrong types and wrong values of the file, and wrong flags: one line for each."""
    lines = "securePorts: 1\nstorage: memory\nstorage: memory\nanonymousAuth: 'no'\nrequestTimeout: 1d\nlogLevel: loud\n"
    path = configuration(lines)
    with pytest.raises(OptionsError) as caught:
        load({"bind_address": "localhost"}, environ={"KCP_PY_CLUSTER_HEADER": "a b"}, config_file=path)
    assert caught.value.problems == (
        f"{path}: storage: given twice",
        f"{path}: securePorts: no such key; did you mean securePort?",
        f"{path}: anonymousAuth: 'no' is not of type 'boolean'",
        f"{path}: logLevel: 'loud' is not one of ['debug', 'info', 'warning', 'error']",
        '--bind-address: "localhost" is not an IP address',
        'KCP_PY_CLUSTER_HEADER: "a b" is not the name of an HTTP header',
        f'{path}: requestTimeout: "1d" is not a duration such as 30s, 5m or 1h30m',
    )
    assert str(caught.value) == "\n".join(caught.value.problems)
    with pytest.raises(OptionsError) as caught:
        load({"storage": "etcd", "tls_cert_file": "a"})
    assert caught.value.problems == ("--storage: etcd needs --etcd-servers", "--tls-cert-file: needs --tls-private-key-file too")


def test_an_absent_or_unreadable_file_is_named(tmp_path):
    """A file that cannot be read is a wrong setting, not a traceback."""
    with pytest.raises(OptionsError, match=r"absent\.yaml: No such file or directory$"):
        load(config_file=str(tmp_path / "absent.yaml"))
    with pytest.raises(OptionsError, match=r"Is a directory$"):
        load(config_file=str(tmp_path))
    (tmp_path / "latin.yaml").write_bytes(b"\xff")
    with pytest.raises(OptionsError, match=r"not UTF-8 text$"):
        load(config_file=str(tmp_path / "latin.yaml"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"storage": "etcd"}, "--storage: etcd needs --etcd-servers"),
        ({"etcd_servers": "https://a:1"}, "--etcd-servers: only used with --storage etcd, which is sqlite"),
        ({"cluster_hostnames": "true"}, "--cluster-hostnames: needs --external-hostname with a DNS name"),
        (
            {"cluster_hostnames": "true", "external_hostname": "10.0.0.1"},
            "--cluster-hostnames: needs --external-hostname with a DNS name",
        ),
        ({"tls_cert_file": "a"}, "--tls-cert-file: needs --tls-private-key-file too"),
        ({"tls_private_key_file": "a"}, "--tls-private-key-file: needs --tls-cert-file too"),
        ({"etcd_keyfile": "a"}, "--etcd-keyfile: needs --etcd-certfile too"),
        ({"etcd_username_file": "a"}, "--etcd-username-file: needs --etcd-password-file too"),
    ],
    ids=str,
)
def test_settings_that_need_each_other(flags, message):
    """Half of a pair is refused, naming the half that is there."""
    with pytest.raises(OptionsError) as caught:
        load(flags)
    assert str(caught.value) == message


def test_misspelt_variables_are_noticed():
    """A variable with a name similar to that of a setting is reported; other variables are ignored."""
    environ = {"KCP_PY_STORGE": "etcd", "KCP_PY_STORAGE": "etcd", "KCP_PY_CONFIG": "", "KCP_PY_ZZZ": "", "OTHER": ""}
    assert unknown_environment_variables(environ) == ["KCP_PY_STORGE: no such setting; did you mean KCP_PY_STORAGE?"]


def test_the_schema_is_valid_and_has_every_setting():
    """The schema of the file is itself a valid JSON schema and knows each setting under its key."""
    schema = configuration_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert {setting.key for setting in SETTINGS} | {"apiVersion", "kind"} == set(schema["properties"])


def test_spellings_are_distinct():
    """No two settings share a flag, a variable or a key."""
    for spelling in ("flag", "variable", "key"):
        names = [getattr(setting, spelling) for setting in SETTINGS]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("sample", ["server.yaml", "server-etcd.yaml"])
def test_the_samples_load(sample):
    """The configuration files in config/ are accepted."""
    path = Path(__file__).resolve().parents[2] / "config" / sample
    assert load(config_file=str(path)) != Options(secure_port=1)


HOOK = {"authorization_mode": "RBAC,Webhook", "authorization_webhook_config_file": "/hook"}


def test_authorizers():
    """They are asked in the order in which they are given; a webhook needs its kubeconfig."""
    options = load(flags=HOOK)
    assert options.authorization_mode == ("RBAC", "Webhook")
    assert options.authorization_webhook_config_file == Path("/hook")
    assert load(flags={"authorization_config": "/file"}).authorization_config == Path("/file")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"simulate": "nodes"}, '--simulate: "nodes" cannot be simulated; only workloads can'),
        ({"authorization_mode": ""}, "--authorization-mode: at least one authorization-mode must be passed"),
        ({"authorization_mode": "Foo"}, '--authorization-mode: authorization-mode "Foo" is not a valid mode'),
        (
            {"authorization_mode": "Node,RBAC"},
            (
                '--authorization-mode: authorization-mode "Node" is not available: '
                "logical clusters have no nodes, so there are no kubelets to confine"
            ),
        ),
        (
            {"authorization_mode": "RBAC,RBAC"},
            '--authorization-mode: authorization-mode ["RBAC" "RBAC"] has mode specified more than once',
        ),
        (
            {"authorization_mode": "Webhook"},
            "--authorization-mode: authorization-mode Webhook's authorization config file not passed",
        ),
        (
            {"authorization_webhook_config_file": "/hook"},
            "--authorization-webhook-config-file: cannot specify --authorization-webhook-config-file without mode Webhook",
        ),
        (
            {"authorization_config": "/file", "authorization_webhook_version": "v1"},
            (
                "--authorization-webhook-version: --authorization-config can not be specified when --authorization-mode or "
                "--authorization-webhook-* flags are defined"
            ),
        ),
    ],
)
def test_authorizers_that_exclude_each_other(flags, message):
    """The texts behind the flag are those of kube-apiserver."""
    with pytest.raises(OptionsError) as caught:
        load(flags=flags)
    assert str(caught.value) == message
