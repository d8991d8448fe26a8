"""What stands before a body: paths, queries, headers, continue tokens, credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from kcp_py.apimachinery.continue_token import ContinueTokens
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta import options as metaoptions
from kcp_py.apimachinery.serializer.json.codec import DecodeError, decode_json
from kcp_py.authn.authenticator import Credentials
from kcp_py.authn.certificate import ClientCertificates
from kcp_py.authn.tokens import bearer_token
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.request.clusterpath import parse_target
from kcp_py.request.requestinfo import parse_query, parse_request
from kcp_py.server.negotiation import negotiate, negotiate_discovery, request_media, wants_pretty
from kcp_py.server.warnings import warning_headers
from tests.fuzz.expressions import FIELDS, LABELS
from tests.fuzz.mutation import mutated_bytes, of_json, of_text
from tests.fuzz.target import Target

PATHS = (
    "/clusters/a/api/v1/namespaces/b/configmaps/c",
    "/apis/example.com/v1/widgets/x/status",
    "/clusters/*/api/v1/secrets",
    "/clusters/root:org:ws/apis",
    "/api/v1/watch/namespaces/a/pods",
    "/api/v1/namespaces/a/status",
    "/clusters/a/openapi/v3/apis/apps/v1",
    "/healthz/etcd",
    "/clusters/%2a/version",
)
PATH_WORDS = (
    "/clusters/",
    "/",
    "//",
    "..",
    ".",
    "%2f",
    "%2F",
    "%252e",
    "%00",
    "%",
    ";a=b",
    "*",
    "%2a",
    "\\",
    "/api",
    "/apis",
    "/v1",
    "/namespaces/",
    "/watch/",
    ":",
)
QUERIES = (
    "limit=500&continue=x&labelSelector=a%3Db&fieldSelector=metadata.name%3Da",
    "watch=true&resourceVersion=5&allowWatchBookmarks=1&timeoutSeconds=3",
    "dryRun=All&fieldManager=m&fieldValidation=Strict&force=true",
    "gracePeriodSeconds=0&propagationPolicy=Foreground&orphanDependents=false",
    "resourceVersionMatch=Exact&resourceVersion=1&sendInitialEvents=true",
    "pretty=1&includeObject=Object&&=&a",
    *(f"labelSelector={text}" for text in LABELS + FIELDS),
)
QUERY_WORDS = (
    "&",
    "=",
    "%",
    "+",
    ";",
    "%zz",
    "%ff",
    "true",
    "9223372036854775808",
    "-1",
    "limit",
    "watch",
    "continue",
    "resourceVersion",
    "dryRun",
    "labelSelector",
)
DELETE_OPTIONS = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
    "dryRun": ["All"],
    "preconditions": {"uid": "1", "resourceVersion": "2"},
    "orphanDependents": False,
}
ACCEPTS = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/vnd.kubernetes.protobuf;q=0.9, */*;q=0.1",
    "application/yaml, application/json;q=0.5;pretty=1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;stream=watch",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "text/*",
    "*/*",
    "application/cbor",
    "application/json; charset=utf-8",
    "application/apply-patch+yaml",
    "Bearer a.b-c_d~+/==",
    "curl/8",
    "kubectl/v1.37.0 (linux/amd64) kubernetes/abc",
)
ACCEPT_WORDS = (
    ",",
    ";",
    "=",
    "q=",
    "q=nan",
    "q=1e999",
    "q=-1",
    "as=",
    "g=",
    "v=",
    "*/*",
    "application/",
    '"',
    "\xff",
    "\t",
    "pretty=1",
    "Bearer ",
)
TOKENS = ContinueTokens(b"0123456789abcdef")
SCOPES = ("a/configmaps", "b/configmaps")


def targets() -> list[Target]:
    tokens = [TOKENS.encode(SCOPES[0], 5, start).encode() for start in ("", "name", "é" * 50)]
    return [
        Target(name="path", make=of_text(PATHS, PATH_WORDS), run=_path, seeds=_encoded(PATHS)),
        Target(name="query", make=of_text(QUERIES, QUERY_WORDS), run=_query, seeds=_encoded(QUERIES)),
        Target(name="delete-options", make=of_json([DELETE_OPTIONS]), run=_delete_options),
        Target(name="header", make=of_text(ACCEPTS, ACCEPT_WORDS), run=_header, seeds=_encoded(ACCEPTS)),
        Target(
            name="continue",
            make=lambda random: mutated_bytes(random, tokens, [b".", b"=", b"-", b"_", b"eyJ"]),
            run=_continue,
            seeds=tokens,
        ),
        Target(name="certificate", make=_certificate_bytes, run=_certificate),
    ]


def _encoded(texts: Sequence[str]) -> list[bytes]:
    return [text.encode() for text in texts]


def _path(data: bytes) -> None:
    for header in ((), (b"a",), (data[:100],)):
        try:
            target = parse_target(data, header, Name("root"))
        except StatusError as error:
            assert error.code in {400, 404, 501}, error
            continue
        # A cached result equals an uncached one.
        assert parse_target(data, header, Name("root")) == target
        assert "\0" not in target.path
        assert not {".", ".."} & set(target.path.split("/"))
        for method in ("GET", "POST", "DELETE", "BREW"):
            try:
                info = parse_request(method, target.path, {"watch": ["true"]})
            except StatusError as error:
                assert error.code == 400, error
            else:
                assert "/" not in info.name + info.namespace + info.resource + info.group + info.version


_DECODERS: Sequence[Callable[[metaoptions.Query], object]] = (
    metaoptions.decode_list_options,
    metaoptions.decode_create_options,
    metaoptions.decode_update_options,
    lambda query: metaoptions.decode_patch_options(query, apply=True),
    lambda query: metaoptions.decode_patch_options(query, apply=False),
    metaoptions.decode_delete_options,
    metaoptions.decode_include_object,
)


def _query(data: bytes) -> None:
    try:
        query = parse_query(data)
    except StatusError as error:
        assert error.code == 400, error
        return
    for decode in _DECODERS:
        try:
            decode(query)
        except StatusError as error:
            assert error.code in {400, 422}, error
    for values in query.values():
        try:
            metaoptions.parse_resource_version(values[0])
        except StatusError as error:
            assert error.code in {400, 422}, error
    for method in ("GET", "DELETE"):
        parse_request(method, "/api/v1/configmaps", query)
    wants_pretty(query, None)


def _delete_options(data: bytes) -> None:
    try:
        body = decode_json(data)
    except DecodeError:
        return
    if isinstance(body, dict):
        try:
            metaoptions.decode_delete_options({}, body)
        except StatusError as error:
            assert error.code in {400, 422}, error


def _header(data: bytes) -> None:
    value = data.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"")
    for choose in (negotiate, negotiate_discovery):
        for pretty in (False, True):
            try:
                assert choose(value, pretty=pretty).content_type
            except StatusError as error:
                assert error.code == 406, error
    try:
        negotiate(value, watch=True)
    except StatusError as error:
        assert error.code == 406, error
    for protobuf in (False, True):
        try:
            request_media(value, protobuf=protobuf)
        except StatusError as error:
            assert error.code == 415, error
    try:
        bearer_token({b"authorization": value})
    except StatusError as error:
        assert error.code == 401, error
    metaoptions.manager_or_user_agent("", value.decode("latin-1"))
    wants_pretty({}, value)
    for name, line in warning_headers([value.decode("latin-1"), value.decode("utf-8", "replace")]):
        assert name == b"warning"
        assert not set(line) & set(b"\r\n\0")


def _continue(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for scope in SCOPES:
        try:
            revision, start = TOKENS.decode(text, scope)
        except StatusError as error:
            assert error.code == 400, error
        else:
            assert scope == SCOPES[0]
            assert TOKENS.encode(scope, revision, start) == text


def _certificate_bytes(random: Random) -> bytes:
    return mutated_bytes(random, [bytes.fromhex("3082010a0282010100"), bytes.fromhex("3000"), b"-----BEGIN CERTIFICATE-----"])


async def _no_cluster(_cluster: Name) -> str | None:
    return None


def _certificate(data: bytes) -> None:
    try:
        asyncio.run(ClientCertificates(_no_cluster).authenticate(Credentials({}, data, ROOT, "/")))
    except StatusError as error:
        assert error.code == 401, error
