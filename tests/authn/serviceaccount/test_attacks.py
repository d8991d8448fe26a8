"""Tokens that must not be accepted. Most are signed with the server's own key: their claims alone are wrong."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import orjson
import pytest
from joserfc import jws
from joserfc.jwk import OctKey

from kcp_py.authn.serviceaccount.keys import SigningKey, parse_private
from kcp_py.authn.serviceaccount.newkeys import generate_pem
from kcp_py.authn.tokens import MAX_TOKEN_BYTES
from tests.authn.serviceaccount.conftest import SERVER, Issued, Sign, issue, now, server_key, whoami
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

GONE: Final = "the claim is left out"
"""A claim that is left out."""


def changed(claims: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Claims with some of them changed, by their dotted paths with `/` for the claim `kubernetes.io`."""
    found: dict[str, Any] = orjson.loads(orjson.dumps(claims))
    for path, value in change.items():
        at = found["kubernetes.io"] if path.startswith("/") else found
        *parents, last = path[1:].split(".") if path.startswith("/") else [path]
        for parent in parents:
            at = at[parent]
        if value is GONE:
            del at[last]
        else:
            at[last] = value
    return found


def encoded(part: Any) -> str:
    raw = part if isinstance(part, bytes) else orjson.dumps(part)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "change",
    [
        {"/clusterName": "team-b"},
        {"/clusterName": GONE},
        {"/clusterName": ["team-a"]},
        {"iss": f"{SERVER}/clusters/team-b"},
        {"iss": f"{SERVER}/clusters/team-b", "/clusterName": "team-b"},
        {"iss": f"{SERVER}/clusters/*", "/clusterName": "*"},
        {"iss": f"{SERVER}/clusters/root:team-a", "/clusterName": "root:team-a"},
        {"iss": f"{SERVER}/clusters/team-a/"},
        {"iss": f"{SERVER}/clusters/team-b/clusters/team-a"},
        {"iss": f"http{SERVER[5:]}/clusters/team-a"},
        {"iss": "https://evil.example/clusters/team-a"},
        {"iss": SERVER},
        {"iss": ""},
        {"iss": GONE},
        {"iss": [f"{SERVER}/clusters/team-a"]},
        {"iss": "kubernetes/serviceaccount"},
        {"sub": "system:serviceaccount:default:admin"},
        {"sub": "system:serviceaccount:kube-system:builder"},
        {"sub": "system:admin"},
        {"sub": GONE},
        {"/namespace": "kube-system"},
        {"/namespace": "../kube-system"},
        {"/namespace": ""},
        {"/serviceaccount.name": "default"},
        {"/serviceaccount.name": "builder/token"},
        {"/serviceaccount.uid": "other"},
        {"/serviceaccount.uid": ""},
        {"/serviceaccount.uid": GONE},
        {"/serviceaccount": "builder"},
        {"/serviceaccount": GONE},
        {"kubernetes.io": GONE},
        {"kubernetes.io": []},
        {"/secret": {"name": "none", "uid": "x"}},
        {"/secret": {"name": "none"}},
        {"/secret": "none"},
        {"/secret": None},
        {"/pod": {"name": "none", "uid": "x"}},
        {"/node": {"name": "none", "uid": "x"}},
        {"/node": {"name": "none", "uid": ""}},
        {"/node": {}},
        {"aud": ["other"]},
        {"aud": [f"{SERVER}/"]},
        {"aud": {"0": SERVER}},
        {"aud": [SERVER, 5]},
        {"aud": GONE},
        {"exp": GONE},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": None},
        {"exp": -1},
        {"nbf": "0"},
        {"nbf": 99999999999},
        {"jti": 5},
    ],
    ids=str,
)
async def test_claims_that_do_not_agree(api: Api, issued: Issued, sign: Sign, change: dict[str, Any]) -> None:
    """A valid signature does not help a token whose claims are missing, of another type, of another cluster or of another account."""
    assert (await whoami(api, sign(changed(issued.claims, {})))).status_code == 201
    token = sign(changed(issued.claims, change))
    for cluster in ("/clusters/team-a", "/clusters/team-b", "/clusters/*", ""):
        assert (await whoami(api, token, cluster)).status_code == 401


async def test_repeated_claims(api: Api, issued: Issued) -> None:
    """Readers differ about the value of a member that is given twice."""
    key = await server_key(api)
    payload = orjson.dumps(issued.claims)
    assert (await whoami(api, signed(key, payload))).status_code == 201
    for repeated in (b'"iss":"%s/clusters/team-a",' % SERVER.encode(), b'"sub":"x",', b'"x":1,"x":2,'):
        assert (await whoami(api, signed(key, b"{" + repeated + payload[1:]))).status_code == 401


@pytest.mark.parametrize("payload", [b"", b"null", b"[]", b"{", b'{"iss":NaN}', b"[" * 5000, b"\xff\xfe"], ids=repr)
async def test_payloads_that_are_not_claims(api: Api, payload: bytes) -> None:
    """They are refused, with a valid signature too."""
    assert (await whoami(api, signed(await server_key(api), payload))).status_code == 401


def signed(key: SigningKey, payload: bytes) -> str:
    """A token with any payload."""
    header = {"alg": key.public.algorithm, "kid": key.public.id}
    return jws.serialize_compact(header, payload, key.key, algorithms=[key.public.algorithm])


async def test_signatures(api: Api, issued: Issued) -> None:
    """Tokens without a signature, with that of another key or algorithm, and with the ID of a key that is not there are refused."""
    key = await server_key(api)
    head, payload, signature = issued.token.split(".")
    other = parse_private(generate_pem("ES256").encode())
    public = OctKey.import_key(key.public.key.as_pem(private=False).replace(b"-", b"_"))
    hmac = jws.serialize_compact({"alg": "HS256", "kid": key.public.id}, orjson.dumps(issued.claims), public, algorithms=["HS256"])
    none = encoded({"alg": "none", "kid": key.public.id})
    forged = [
        f"{none}.{payload}.",
        f"{none}.{payload}.{signature}",
        f"{head}.{payload}.",
        f"{head}.{payload}.AAAA",
        f"{head}.{payload}.{signature[:-4]}AAAA",
        f"{head}.{encoded({**issued.claims, 'exp': now() + 10**6})}.{signature}",
        hmac,
        other.sign(issued.claims),
        SigningKey(key.public, other.key).sign(issued.claims),
    ]
    for kid in ("", "../../etc/passwd", "' OR 1=1", "x" * 400, None, 5, ["x"], {"a": 1}):
        header = encoded({"alg": "ES256", **({} if kid is None else {"kid": kid})})
        forged.append(f"{header}.{payload}.{signature}")
    for token in forged:
        assert (await whoami(api, token)).status_code == 401


async def test_forms_of_a_token(api: Api, issued: Issued) -> None:
    """A token has one form: without white space, padding, further parts, or another alphabet."""
    head, payload, signature = issued.token.split(".")
    assert (await whoami(api, issued.token)).status_code == 201
    for token in (
        f"{issued.token}.",
        f"{issued.token}.x",
        f".{issued.token}",
        f"{head}..{signature}",
        f"{head}.{payload}",
        f"{head}=.{payload}.{signature}",
        f"{head}.{payload}=.{signature}",
        f"{head}.{payload}.{signature}==",
        f"{head}.{payload}.{signature}\t",
        f"{head}.{payload}.+{signature[1:]}",
        f'{{"protected":"{head}"}}',
    ):
        answer = await whoami(api, token)
        assert answer.status_code == (201 if token.strip() == issued.token else 401)


async def test_huge_tokens(api: Api, issued: Issued, sign: Sign) -> None:
    """Longer ones than any issuer makes are not looked at, and are refused with the path of no cluster, too."""
    token = sign({**issued.claims, "x": "y" * MAX_TOKEN_BYTES})
    assert (await whoami(api, token)).status_code == 401
    assert (await whoami(api, token, "")).status_code == 401


async def test_tokens_in_other_places(api: Api, issued: Issued) -> None:
    """A token in the query, in a cookie, in another header or with another scheme identifies no one."""
    for path in (f"?access_token={issued.token}", f"?token={issued.token}"):
        answer = await api("POST", f"/clusters/team-a/apis/authentication.k8s.io/v1/selfsubjectreviews{path}", {}, token="")
        assert answer.status_code == 403
        assert "system:anonymous" in answer.json()["message"]
    for headers in (
        {"Cookie": f"Authorization=Bearer {issued.token}"},
        {"X-Remote-User": "admin", "X-Auth-Token": issued.token},
        {"Authorization": f"Basic {issued.token}"},
        {"Authorization": issued.token},
    ):
        assert (await whoami(api, "", headers=headers)).status_code == 403


async def test_the_hash_of_a_token_is_the_token(api: Api, issued: Issued) -> None:
    """A token that was used does not make a similar one valid."""
    assert (await whoami(api, issued.token)).status_code == 201
    head, payload, signature = issued.token.split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    assert (await whoami(api, f"{head}.{payload}.{flipped}")).status_code == 401


async def test_accounts_of_equal_names_are_different(api: Api, issued: Issued, sign: Sign) -> None:
    """The account of another cluster with equal namespace and name has another uid, so claims of the one do not fit the other."""
    other = await issue(api, core="/clusters/team-b/api/v1/namespaces/default")
    assert other.uid != issued.uid
    moved = changed(issued.claims, {"iss": f"{SERVER}/clusters/team-b", "/clusterName": "team-b"})
    for cluster in ("team-a", "team-b"):
        assert (await whoami(api, sign(moved), f"/clusters/{cluster}")).status_code == 401
