"""The modes of impersonation: the permissions that each needs, and how a refusal names the missing one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from kcp_py.authz.authorizer import Decision
from kcp_py.authz.impersonation import Wanted, authorize_impersonation
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import UserInfo
from tests.authz.conftest import ALICE, RBAC, binding, let_in, role, rule
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

REVIEWS: Final = "/clusters/team-a/apis/authentication.k8s.io/v1/selfsubjectreviews"
AUTHENTICATED: Final = "system:authenticated"
ACCOUNT: Final = "system:serviceaccount:a:b"
OF_TEAM_A: Final = {"authentication.kcp.io/cluster-name": ["team-a"]}
"""The extra field of the service accounts of the cluster."""
USERS_ROLE: Final = rule("impersonate:user-info", "users", groups="authentication.k8s.io")


def on(mode: str) -> dict[str, Any]:
    """The permission to create SelfSubjectReviews in a mode."""
    return rule(f"impersonate-on:{mode}:create", "selfsubjectreviews", groups="authentication.k8s.io")


def parts(mode: str, resources: str, names: str = "") -> dict[str, Any]:
    """The permission to impersonate parts of users in a mode."""
    return rule(f"impersonate:{mode}", resources, groups="authentication.k8s.io", names=names)


def as_(name: str, *groups: str, uid: str = "", **extra: str) -> list[tuple[str, str]]:
    """Headers. Extra fields are below the domain `acme.io`."""
    headers = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    headers += [(f"Impersonate-Extra-acme.io%2f{key}", value) for key, value in extra.items()]
    return [*headers, ("Impersonate-Uid", uid)] if uid else headers


USER_INFO: Final = (on("user-info"), parts("user-info", "users"))
ALLOWED: Final[dict[str, tuple[Sequence[dict[str, Any]], list[tuple[str, str]], dict[str, Any]]]] = {
    "a user": (USER_INFO, as_("bob"), {"username": "bob", "groups": [AUTHENTICATED]}),
    "one user": (
        (on("user-info"), parts("user-info", "users", "bob")), as_("bob"), {"username": "bob", "groups": [AUTHENTICATED]},
    ),
    "groups": (
        (*USER_INFO, parts("user-info", "groups", "x y")), as_("bob", "x", "y"),
        {"username": "bob", "groups": ["x", "y", AUTHENTICATED]},
    ),
    "four groups by the name *": (
        (*USER_INFO, parts("user-info", "groups", "*")), as_("bob", *"wxyz"),
        {"username": "bob", "groups": [*"wxyz", AUTHENTICATED]},
    ),
    "a uid": (
        (*USER_INFO, parts("user-info", "uids")), as_("bob", uid="7"), {"username": "bob", "uid": "7", "groups": [AUTHENTICATED]},
    ),
    "an extra field": (
        (*USER_INFO, parts("user-info", "userextras/acme.io/foo")), as_("bob", foo="7"),
        {"username": "bob", "groups": [AUTHENTICATED], "extra": {"acme.io/foo": ["7"]}},
    ),
    "a service account": (
        (on("serviceaccount"), parts("serviceaccount", "serviceaccounts")), as_(ACCOUNT),
        {"username": ACCOUNT, "groups": ["system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED], "extra": OF_TEAM_A},
    ),
    "a name that only resembles a service account's": (
        USER_INFO, as_("system:serviceaccount:A_B:b"), {"username": "system:serviceaccount:A_B:b", "groups": [AUTHENTICATED]},
    ),
    "a node": (
        (on("arbitrary-node"), parts("arbitrary-node", "nodes", "n1")), as_("system:node:n1"),
        {"username": "system:node:n1", "groups": ["system:nodes", AUTHENTICATED]},
    ),
    "legacy: a user": ((rule("impersonate", "users"),), as_("bob"), {"username": "bob", "groups": [AUTHENTICATED]}),
    "legacy: a service account with groups": (
        (rule("impersonate", "serviceaccounts groups"),), as_(ACCOUNT, "x"),
        {"username": ACCOUNT, "groups": ["x", AUTHENTICATED], "extra": OF_TEAM_A},
    ),
    "legacy: a group without a name": (
        (rule("impersonate", "users groups"),), as_("bob", ""), {"username": "bob", "groups": ["", AUTHENTICATED]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "headers", "user"), ALLOWED.values(), ids=ALLOWED)
async def test_allowed(api: Api, rules: Sequence[dict[str, Any]], headers: list[tuple[str, str]], user: dict[str, Any]) -> None:
    """One mode is enough, and the groups of service accounts and nodes are known."""
    await let_in(api, f"Group:{AUTHENTICATED}")
    await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", *rules))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))
    review = await api.ok("POST", REVIEWS, {}, token=ALICE, headers=headers)
    assert review["status"] == {"userInfo": user}


def denied(resource: str, verb: str, where: str = "at the cluster scope", name: str = "", group: str = "authentication.k8s.io") -> str:
    """The message of a refusal."""
    plural = resource.partition("/")[0]
    named = f'{plural}.{group} "{name}"' if name else f"{plural}.{group}"
    named = named.replace('. "', ' "')
    return f'{named} is forbidden: User "alice" cannot {verb} resource "{resource}" in API group "{group}" {where}'


ON: Final = denied("selfsubjectreviews", "impersonate-on:user-info:create")
EXTRA: Final = f"{denied('userextras', 'impersonate:user-info')}: impersonating"
NO_DOMAIN: Final = 'extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")'
REFUSED: Final[dict[str, tuple[Sequence[dict[str, Any]], list[tuple[str, str]], str]]] = {
    "without permissions": ((), as_("bob"), ON),
    "without the request": ((parts("user-info", "users"),), as_("bob"), ON),
    "without the user": ((on("user-info"),), as_("bob"), denied("users", "impersonate:user-info", name="bob")),
    "another user": (
        (on("user-info"), parts("user-info", "users", "carol")), as_("bob"), denied("users", "impersonate:user-info", name="bob"),
    ),
    "another request": (
        (rule("impersonate-on:user-info:list", "configmaps"), parts("user-info", "users")), as_("bob"), ON,
    ),
    "without the group": (USER_INFO, as_("bob", "x"), denied("groups", "impersonate:user-info", name="x")),
    "three groups by the name *": (
        (*USER_INFO, parts("user-info", "groups", "*")), as_("bob", *"xyz"), denied("groups", "impersonate:user-info", name="x"),
    ),
    "administrators": (
        (*USER_INFO, parts("user-info", "groups")), as_("bob", "system:masters"),
        denied("groups", "impersonate:user-info", name="system:masters") + ": impersonating the system:masters group is not allowed",
    ),
    "a group without a name": (
        (*USER_INFO, parts("user-info", "groups")), as_("bob", ""),
        denied("groups", "impersonate:user-info") + ": impersonating the empty string group is not allowed",
    ),
    "without the uid": (USER_INFO, as_("bob", uid="7"), denied("uids", "impersonate:user-info", name="7")),
    "without the extra field": (
        USER_INFO, as_("bob", foo="7"), denied("userextras/acme.io/foo", "impersonate:user-info", name="7"),
    ),
    "an extra field without a domain": (
        (*USER_INFO, parts("user-info", "userextras/*")), [*as_("bob"), ("Impersonate-Extra-scopes", "x")],
        f"{EXTRA} an invalid key in extra is not allowed: {NO_DOMAIN}",
    ),
    "an empty value": (
        (*USER_INFO, parts("user-info", "userextras/*")), as_("bob", foo=""),
        f"{EXTRA} the empty string value in extra is not allowed",
    ),
    "a service account in the mode of users": (
        USER_INFO, as_(ACCOUNT), denied("selfsubjectreviews", "impersonate-on:serviceaccount:create"),
    ),
    "without the service account": (
        (on("serviceaccount"),), as_(ACCOUNT), denied("serviceaccounts", "impersonate:serviceaccount", 'in the namespace "a"', "b"),
    ),
    "a service account with groups": (
        (on("serviceaccount"), parts("serviceaccount", "serviceaccounts groups")), as_(ACCOUNT, "x"),
        denied("serviceaccounts", "impersonate", 'in the namespace "a"', "b", ""),
    ),
    "without the node": (
        (on("arbitrary-node"),), as_("system:node:n1"), denied("nodes", "impersonate:arbitrary-node", name="n1"),
    ),
    "a node with groups": (
        (on("arbitrary-node"), parts("arbitrary-node", "nodes")), as_("system:node:n1", "x"),
        denied("users", "impersonate", name="system:node:n1", group=""),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "headers", "message"), REFUSED.values(), ids=REFUSED)
async def test_refused(api: Api, rules: Sequence[dict[str, Any]], headers: list[tuple[str, str]], message: str) -> None:
    """The refusal is that of the strictest mode, word for word as kube-apiserver's."""
    await let_in(api, f"Group:{AUTHENTICATED}")
    await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", *rules))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))
    assert (await api.fails(403, "POST", REVIEWS, {}, token=ALICE, headers=headers))["message"] == message


class AssociatedNodes:
    """Allows the mode of associated nodes alone, and remembers who was shown to it."""

    def __init__(self) -> None:
        self.shown: list[tuple[UserInfo, str, str]] = []

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision:
        assert cluster == "team-a"
        self.shown.append((user, info.verb, info.name))
        return Decision(allowed=":associated-node" in info.verb)


@pytest.mark.parametrize(
    ("name", "extra", "allowed"),
    [
        (ACCOUNT, {"authentication.kubernetes.io/node-name": ("n1",)}, True),
        (ACCOUNT, {"authentication.kubernetes.io/node-name": ("n2",)}, False),
        (ACCOUNT, {"authentication.kubernetes.io/node-name": ("n1", "n2")}, False),
        (ACCOUNT, {}, False),
        ("alice", {"authentication.kubernetes.io/node-name": ("n1",)}, False),
    ],
)
async def test_a_service_account_as_the_node_of_its_token(name: str, extra: dict[str, tuple[str, ...]], *, allowed: bool) -> None:
    """The mode is for the node that the token is bound to; authorizers do not see which one that is."""
    authorizer = AssociatedNodes()
    requester, wanted = UserInfo(name, extra=extra), Wanted("system:node:n1", "", (), {})
    info = UNPARSED._replace(is_resource=True, verb="list", resource="pods")

    async def impersonated() -> UserInfo:
        return await authorize_impersonation(authorizer, requester, Name("team-a"), info=info, wanted=wanted)

    if not allowed:
        with pytest.raises(Exception, match="cannot impersonate-on:arbitrary-node:list resource"):
            await impersonated()
        return
    assert (await impersonated()).groups == ("system:nodes", AUTHENTICATED)
    keys = {"authentication.kubernetes.io/associated-node-keys": ("authentication.kubernetes.io/node-name",)}
    assert authorizer.shown == [
        (requester._replace(extra=keys), "impersonate-on:associated-node:list", ""),
        (requester._replace(extra=keys), "impersonate:associated-node", "*"),
    ]
