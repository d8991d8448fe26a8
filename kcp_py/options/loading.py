"""From flags, environment and configuration file to `Options`: the first of them that names a setting wins, then comes the default."""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kcp_py.options.errors import OptionsError
from kcp_py.options.kinds import is_dns_name
from kcp_py.options.options import Options
from kcp_py.options.settings import ENVIRONMENT_PREFIX, SETTINGS, Setting

CONFIGURATION_API_VERSION: Final = "config.kcp-py.io/v1alpha1"
CONFIGURATION_KIND: Final = "ServerConfiguration"
CONFIGURATION_VARIABLE: Final = ENVIRONMENT_PREFIX + "CONFIG"


def load_options(
    *, flags: Mapping[str, str], environ: Mapping[str, str], config_file: str | None = None, base: Options | None = None
) -> Options:
    """Combine the settings of all sources.

    Args:
        flags: by field name of `Options`, the text that the command line gives. A name that is not a setting is a programming error.
        environ: the whole environment; variables `KCP_PY_…` count. An empty variable counts as a given, empty value.
        config_file: the path that `--config` gives; without it `KCP_PY_CONFIG` names the file, if it is there and not empty.
        base: has the values of the settings that no source gives; None for the defaults.

    Raises:
        OptionsError: the file cannot be read or does not match its schema, values are wrong, or values exclude each other. It has every
        problem, except that values are only compared with each other when each is right.
    """
    path = config_file if config_file is not None else environ.get(CONFIGURATION_VARIABLE) or None
    document: Mapping[str, Any] = {}
    problems: list[str] = []
    if path is not None:
        document = _read_configuration(path, problems)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        given = _given(setting, flags=flags, environ=environ, document=document, path=path)
        if given is None:
            continue
        origin, text = given
        try:
            values[setting.name] = setting.kind.parse(text)
        except ValueError as error:
            problems.append(f"{origin}: {error}")
        origins[setting.name] = origin
    if not problems:
        options = Options(**values) if base is None else dataclasses.replace(base, **values)
        problems = _check_together(options, origins)
    if problems:
        raise OptionsError(*problems)
    return options


def unknown_environment_variables(environ: Mapping[str, str]) -> list[str]:
    """One line for each variable that looks like a misspelt setting (`KCP_PY_STORGE`); empty where there is none."""
    known = [setting.variable for setting in SETTINGS] + [CONFIGURATION_VARIABLE]
    lines = []
    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known:
            nearest = _nearest(variable, known)
            if nearest is not None:
                lines.append(f"{variable}: no such setting; did you mean {nearest}?")
    return lines


def configuration_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the configuration file."""
    properties: dict[str, Any] = {
        "apiVersion": {"const": CONFIGURATION_API_VERSION},
        "kind": {"const": CONFIGURATION_KIND},
    }
    for setting in SETTINGS:
        properties[setting.key] = {**setting.kind.schema, "description": setting.help}
    return {"type": "object", "required": ["apiVersion", "kind"], "properties": properties, "additionalProperties": False}


def _given(
    setting: Setting, *, flags: Mapping[str, str], environ: Mapping[str, str], document: Mapping[str, Any], path: str | None
) -> tuple[str, str] | None:
    if setting.name in flags:
        return setting.flag, flags[setting.name]
    if setting.variable in environ:
        return setting.variable, environ[setting.variable]
    if setting.key in document:
        return f"{path}: {setting.key}", _text(document[setting.key])
    return None


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return ",".join(value)
        case _:
            return str(value)


def _read_configuration(path: str, problems: list[str]) -> dict[str, Any]:
    """The members of the file that match its schema. What does not match is added to `problems`.

    Raises:
        OptionsError: the file cannot be read, or is not a YAML object.
    """
    # Both are slow to import, and needed only with a configuration file.
    import yaml  # noqa: PLC0415
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise OptionsError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise OptionsError(f"{path}: not UTF-8 text") from None
    twice: dict[str, None] = {}

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - as it is there
            given = [key.value for key, _ in node.value]
            twice.update((str(key), None) for key in given if given.count(key) > 1)
            return super().construct_mapping(node, deep)

    try:
        document = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise OptionsError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise OptionsError(f"{path}: not a YAML object of kind {CONFIGURATION_KIND}")
    problems.extend(f"{path}: {key}: given twice" for key in twice)
    schema = configuration_schema()
    unknown = [key for key in document if key not in schema["properties"]]
    problems.extend(f"{path}: {key}: no such key{_suggestion(str(key), schema['properties'])}" for key in unknown)
    known = {key: value for key, value in document.items() if key not in unknown}
    errors = sorted(Draft202012Validator(schema).iter_errors(known), key=lambda error: [str(step) for step in error.absolute_path])
    for found in errors:
        where = "".join(f"{step}: " for step in found.absolute_path)
        problems.append(f"{path}: {where}{' '.join(found.message.split())}")
    wrong = {found.absolute_path[0] for found in errors if found.absolute_path}
    return {key: value for key, value in known.items() if key not in wrong}


def _check_together(options: Options, origins: Mapping[str, str]) -> list[str]:
    """The problems of settings that need or exclude each other."""

    def origin(name: str) -> str:
        return origins.get(name) or "--" + name.replace("_", "-")

    problems = []
    if options.storage == "etcd" and not options.etcd_servers:
        problems.append(f"{origin('storage')}: etcd needs --etcd-servers")
    if options.storage != "etcd" and options.etcd_servers:
        problems.append(f"{origin('etcd_servers')}: only used with --storage etcd, which is {options.storage}")
    if options.workers > 1 and options.storage != "sqlite":
        instead = "; start several servers on one etcd instead" if options.storage == "etcd" else ""
        problems.append(f"{origin('workers')}: more than one needs --storage sqlite, which is {options.storage}{instead}")
    if options.cluster_hostnames and not is_dns_name(options.external_hostname):
        problems.append(f"{origin('cluster_hostnames')}: needs --external-hostname with a DNS name")
    if options.dev_users and not ipaddress.ip_address(options.bind_address).is_loopback:
        problems.append(f"{origin('dev_users')}: only on a loopback address, and --bind-address is {options.bind_address}")
    problems += _check_authorization(options, origins)
    for one, other in (
        ("tls_cert_file", "tls_private_key_file"),
        ("etcd_certfile", "etcd_keyfile"),
        ("etcd_username_file", "etcd_password_file"),
    ):
        for first, second in ((one, other), (other, one)):
            if getattr(options, first) is not None and getattr(options, second) is None:
                problems.append(f"{origin(first)}: needs --{second.replace('_', '-')} too")
    oidc = [name for name in origins if name.startswith("oidc_")]
    if oidc and options.authentication_config is not None:
        problems.append(f"{origin(oidc[0])}: authentication-config file and oidc-* flags are mutually exclusive")
    elif oidc and not (options.oidc_issuer_url and options.oidc_client_id):
        text = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        problems.append(f"{origin(oidc[0])}: {text}")
    return problems


def _check_authorization(options: Options, origins: Mapping[str, str]) -> list[str]:
    """The problems of the settings of authorizers, in upstream's words (kubernetes `pkg/kubeapiserver/options/authorization.go`)."""
    flags = [name for name in origins if name == "authorization_mode" or name.startswith("authorization_webhook_")]
    if options.authorization_config is not None:
        if not flags:
            return []
        excluded = "--authorization-mode or --authorization-webhook-* flags are defined"
        return [f"{origins[flags[0]]}: --authorization-config can not be specified when {excluded}"]
    asked, file = "Webhook" in options.authorization_mode, options.authorization_webhook_config_file
    if asked and file is None:
        return [f"{origins['authorization_mode']}: authorization-mode Webhook's authorization config file not passed"]
    if file is not None and not asked:
        origin = origins["authorization_webhook_config_file"]
        return [f"{origin}: cannot specify --authorization-webhook-config-file without mode Webhook"]
    return []


def _suggestion(word: str, known: Iterable[str]) -> str:
    nearest = _nearest(word, list(known))
    return "" if nearest is None else f"; did you mean {nearest}?"


def _nearest(word: str, known: list[str]) -> str | None:
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None
