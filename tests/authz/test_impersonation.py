"""The modes of impersonation: the permissions that each needs, and how a refusal names the missing one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authz.authorizer import AuthorizerUnion, Decision, RecallingAuthorizer
from kcp_py.authz.impersonation import Impersonation, Wanted, authorize_impersonation
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import UserInfo
from tests.authz.conftest import ALICE, BOB, MAPS, RBAC, binding, let_in, role, rule
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


class TestRemembered:
    """Requests that repeat an impersonation are answered as the first one is."""

    @pytest.mark.parametrize("mode", ["constrained", "legacy"])
    @pytest.mark.parametrize("revoked", ["binding", "user", "group", "access"])
    async def test_a_revoked_permission_has_no_effect_any_more(self, api: Api, mode: str, revoked: str) -> None:
        """The request after the revocation is refused, and the one after the permission is given again is allowed."""
        if mode == "legacy":
            rules = {"user": rule("impersonate", "users", names="bob"), "group": rule("impersonate", "groups", names="x")}
        else:
            rules = {"on": on("user-info"), "user": parts("user-info", "users", "bob"), "group": parts("user-info", "groups", "x")}
        await let_in(api, f"Group:{AUTHENTICATED}")
        bindings, roles = f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"
        await api.ok("POST", roles, role("impersonator", *rules.values()))
        await api.ok("POST", bindings, binding("alice", "impersonator", "User:alice"))

        async def revoke() -> None:
            if revoked in {"binding", "access"}:
                await api.ok("DELETE", f"{bindings}/{'alice' if revoked == 'binding' else 'members'}")
            else:
                left = [one for part, one in rules.items() if part != revoked]
                await api.ok("PUT", f"{roles}/impersonator", role("impersonator", *left))

        async def give_again() -> None:
            if revoked == "binding":
                await api.ok("POST", bindings, binding("alice", "impersonator", "User:alice"))
            elif revoked == "access":
                await let_in(api, f"Group:{AUTHENTICATED}")
            else:
                await api.ok("PUT", f"{roles}/impersonator", role("impersonator", *rules.values()))

        for _ in range(2):
            for _ in range(3):
                await api.ok("POST", REVIEWS, {}, token=ALICE, headers=as_("bob", "x"))
            await revoke()
            await api.fails(403, "POST", REVIEWS, {}, token=ALICE, headers=as_("bob", "x"))
            await give_again()

    async def test_the_permission_on_the_request_is_that_of_each_request(self, api: Api) -> None:
        """A caller that may create as another user may not delete as that one."""
        await let_in(api, f"Group:{AUTHENTICATED}")
        await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", *USER_INFO, rule("impersonate-on:user-info:get", "configmaps")))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("bob", "admin", "User:bob"))
        await api.ok("POST", MAPS, {"metadata": {"name": "one"}})
        for _ in range(2):
            await api.ok("GET", f"{MAPS}/one", token=ALICE, headers=as_("bob"))
            await api.fails(403, "DELETE", f"{MAPS}/one", token=ALICE, headers=as_("bob"))
            await api.fails(403, "GET", MAPS, token=ALICE, headers=as_("bob"))

    async def test_other_callers_and_other_clusters_have_permissions_of_their_own(self, api: Api) -> None:
        """What one caller may be in one cluster, others may not be there, nor this one elsewhere."""
        other = REVIEWS.replace("team-a", "team-b")
        for cluster in ("team-a", "team-b"):
            await let_in(api, f"Group:{AUTHENTICATED}", cluster=cluster)
        await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", *USER_INFO))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))
        for _ in range(3):
            await api.ok("POST", REVIEWS, {}, token=ALICE, headers=as_("carol"))
            await api.fails(403, "POST", other, {}, token=ALICE, headers=as_("carol"))
            await api.fails(403, "POST", REVIEWS, {}, token=BOB, headers=as_("carol"))
            await api.fails(403, "POST", REVIEWS, {}, token=ALICE, headers=as_("carol", "x"))
            await api.fails(403, "POST", REVIEWS, {}, token=ALICE, headers=as_("carol", uid="7"))
            await api.fails(403, "POST", REVIEWS, {}, token=ALICE, headers=as_("carol", foo="7"))

    async def test_a_cluster_of_the_same_name(self, api: Api) -> None:
        """A permission ends with the cluster."""
        await let_in(api, f"Group:{AUTHENTICATED}")
        await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", rule("impersonate", "users")))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))
        for _ in range(3):
            await api.ok("POST", REVIEWS, {}, token=ALICE, headers=as_("bob"))
        await api.ok("DELETE", "/clusters/team-a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        async with asyncio.timeout(30):
            while (await api("POST", f"{RBAC}/clusterroles", role("other"))).status_code != 201:
                await asyncio.sleep(0)
        await let_in(api, f"Group:{AUTHENTICATED}")
        await api.fails(403, "POST", REVIEWS, {}, token=ALICE, headers=as_("bob"))

    async def test_a_stricter_mode_that_is_allowed_later(self, api: Api) -> None:
        """A node has the group of nodes as soon as the mode for nodes is allowed."""
        await let_in(api, f"Group:{AUTHENTICATED}")
        rules = [rule("impersonate", "users")]
        await api.ok("POST", f"{RBAC}/clusterroles", role("impersonator", *rules))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("alice", "impersonator", "User:alice"))

        async def groups() -> list[str]:
            review = await api.ok("POST", REVIEWS, {}, token=ALICE, headers=as_("system:node:n1"))
            found: list[str] = review["status"]["userInfo"]["groups"]
            return found

        assert [await groups() for _ in range(3)] == [[AUTHENTICATED]] * 3
        rules += [on("arbitrary-node"), parts("arbitrary-node", "nodes")]
        await api.ok("PUT", f"{RBAC}/clusterroles/impersonator", role("impersonator", *rules))
        assert [await groups() for _ in range(3)] == [["system:nodes", AUTHENTICATED]] * 3


class Permissions(RecallingAuthorizer):
    """Allows combinations of a user, a verb and a name, in one cluster."""

    def __init__(self) -> None:
        self.given: set[tuple[str, str, str]] = set()
        self.asked = 0

    def recall(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        self.asked += 1
        allowed = cluster == "team-a" and (user.name, info.verb, info.subresource + info.name) in self.given
        return Decision(allowed=True) if allowed else None

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        return self.recall(user, cluster, info)


_NAMES: Final = ["bob", "system:node:n1", ACCOUNT]
_VERBS: Final = [
    "impersonate",
    *chain.from_iterable(
        (f"impersonate:{mode}", f"impersonate-on:{mode}:get")
        for mode in ("user-info", "serviceaccount", "arbitrary-node", "associated-node")
    ),
]
_CLUSTERS: Final = st.sampled_from([Name("team-a"), Name("team-b")])
_REQUESTERS: Final = st.builds(
    UserInfo,
    st.sampled_from(["alice", ACCOUNT]),
    extra=st.sampled_from([{}, {"authentication.kubernetes.io/node-name": ("n1",)}]),
)
_WANTED: Final = st.builds(
    Wanted,
    st.sampled_from(_NAMES),
    st.sampled_from(["", "u1"]),
    st.lists(st.sampled_from(["x", "y", "system:masters"]), max_size=5).map(tuple),
    st.sampled_from([{}, {"acme.io/a": ("1", "2")}]),
)
_CHANGES: Final = st.sets(
    st.tuples(
        st.sampled_from(["alice", ACCOUNT]),
        st.sampled_from(_VERBS),
        st.sampled_from([*_NAMES, "b", "n1", "*", "", "u1", "x", "y", "acme.io/a1", "acme.io/a2", "**"]),
    ),
    max_size=60,
)


@given(st.lists(st.tuples(_CHANGES, st.lists(st.tuples(_REQUESTERS, _CLUSTERS, _WANTED), min_size=1, max_size=4)), max_size=6))
def test_what_is_remembered_changes_no_answer(steps: list[tuple[set[tuple[str, str, str]], list[tuple[UserInfo, Name, Wanted]]]]) -> None:
    """Whatever permissions come and go, the user is the one whom the modes allow at this moment."""
    authorizer = Permissions()
    impersonation = Impersonation(AuthorizerUnion(authorizer))
    info = UNPARSED._replace(is_resource=True, verb="get", resource="pods")

    async def ask() -> None:
        for changes, questions in steps:
            authorizer.given ^= changes
            for requester, cluster, wanted in questions * 2:
                expected: UserInfo | str
                found: UserInfo | str | None
                try:
                    expected = await authorize_impersonation(authorizer, requester, cluster, info=info, wanted=wanted)
                except StatusError as error:
                    expected = str(error)
                found = impersonation.recall(requester, cluster, info=info, wanted=wanted)
                if found is None:
                    try:
                        found = await impersonation.authorize(requester, cluster, info=info, wanted=wanted)
                    except StatusError as error:
                        found = str(error)
                assert found == expected

    asyncio.run(ask())


class Silent:
    """Has no opinion, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:  # noqa: ARG002
        self.asked += 1
        return None


async def test_authorizers_are_asked_for_each_request() -> None:
    """Permissions of an authorizer that keeps none are not remembered for it, and those of one that does are asked for."""
    info = UNPARSED._replace(is_resource=True, verb="get", resource="pods")
    alice, cluster, wanted = UserInfo("alice"), Name("team-a"), Wanted("bob", "", ("x",), {})
    keeps, asks = Permissions(), Silent()
    keeps.given = {("alice", "impersonate", name) for name in ("bob", "x")}
    impersonation = Impersonation(AuthorizerUnion(keeps))
    assert impersonation.recall(alice, cluster, info=info, wanted=wanted) is None
    await impersonation.authorize(alice, cluster, info=info, wanted=wanted)
    before = keeps.asked
    user = impersonation.recall(alice, cluster, info=info, wanted=wanted)
    assert (user, keeps.asked - before) == (UserInfo("bob", "", ("x", AUTHENTICATED), {}), 2)
    other = Impersonation(AuthorizerUnion(asks, keeps))
    for count in (3, 6):
        assert other.recall(alice, cluster, info=info, wanted=wanted) is None
        await other.authorize(alice, cluster, info=info, wanted=wanted)
        assert asks.asked == count
