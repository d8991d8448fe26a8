"""Check that tests/ mirrors kcp_py/ one to one.

`kcp_py/a/b.py` is tested by `tests/a/test_b.py`, and a large aspect of it by `tests/a/test_b_ASPECT.py`. Exceptions are in two tables with
their reasons: `ELSEWHERE` has modules that are tested through others, `SUITES` tests that stand for no single module. A module without
behaviour (constants, types, protocols) needs no test. Entries that are no longer needed are faults, too.

python hack/verify_tests.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
FREE: Final = frozenset({"benchmarks", "fleet", "fuzz", "hack", "typing"})
"""Folders of tests/ that stand for no package. Tests of the repository itself are directly in tests/."""


class Row(NamedTuple):
    """Modules of one package that are tested through others."""

    modules: str
    tests: str
    """Paths below tests/ without `.py`; a folder stands for all of its tests."""
    why: str


ELSEWHERE: Final[dict[str, list[Row]]] = {
    "proxy": [
        Row("answers", "proxy/test_application", "lists and events are seen by clients"),
        Row("items", "proxy/test_eventlog", "differences are the events of a log"),
        Row("serving", "proxy/test_application", "each test serves a proxy"),
    ],
    "aggregated": [Row("namespaces", "aggregated/test_server", "decisions of the delegate are seen in answers")],
    "": [Row("__main__", "cli/test_process", "the process is its behaviour")],
    "controlplane": [
        Row("serviceaccounts", "authn/serviceaccount/test_authenticator", "puts the parts together, seen through the whole server"),
        Row("serviceranges", "apis/upstream/test_serviceranges", "puts the parts together, seen through the whole server"),
        Row("edge", "controlplane/test_controlplane", "puts the parts together, seen through the whole server"),
        Row("tracing", "tracing/test_tracer", "spans reach a collector from the whole server"),
        Row("surroundings", "library/test_routes", "paths of a program are requested from the whole server"),
    ],
    "apis/upstream/validation": [
        Row(
            "apiservices autoscaling batch claims containers drivers endpoints environment fields flowschemas indexes jobstatus migrations "
            "mounts networking nodes persistentvolumes pods podspec priorityclasses prioritylevels probes resources scheduling "
            "security selectors services statuses storage structs volumes windows workloads",
            "server/handlers/test_answers_of_upstream_kinds",
            "their texts are compared with those of kube-apiserver, object by object",
        ),
        Row("podparts", "server/handlers/test_answers_of_subresources", "compared with kube-apiserver, step by step"),
    ],
    "apis/upstream/subresources": [
        Row(
            "bodies connections objects podparts table",
            "server/handlers/test_answers_of_subresources",
            "their answers and effects are compared with those of kube-apiserver, step by step",
        )
    ],
    "authn/serviceaccount": [
        Row("claims issuer", "authn/serviceaccount/test_tokenrequest", "what is issued is verified again"),
        Row("newkeys", "authn/serviceaccount/test_keys", "a new key signs and verifies"),
        Row("openid", "server/pages/test_openid", "the documents are seen in answers"),
    ],
    "server/filters": [Row("tracing", "tracing/test_tracer", "spans reach a collector from the whole server")],
    "library/generation": [Row("types", "library/generation/test_modules", "the code that it writes is imported and read back")],
    "controllers/simulation": [Row("replicasets", "controllers/simulation/test_simulator", "replica sets follow their deployments")],
    "authn/oidc": [
        Row("building", "authn/oidc/test_operator", "a step from the configuration file to its issuers"),
        Row("verification", "authn/oidc/test_tokens", "times, audiences and signatures of tokens"),
    ],
    "registry/quota": [Row("counting writes", "registry/quota/test_ledger", "parts of the ledger, seen in the usage after writes")],
    "admission/policy": [
        Row("definitions hooks", "admission/policy/test_validatingplugin", "selection and changes of policies are seen in answers"),
        Row("matching permissions request", "admission/policy/test_validatingplugin", "selection and variables are seen in answers"),
        Row("mutating", "admission/policy/test_mutatingplugin", "results of mutations are compared in answers"),
    ],
    "admission/podsecurity": [Row("checks", "admission/podsecurity/test_standards", "the table of versions runs every check")],
    "admission": [
        Row("clusteraccessgrants", "authz/grants/test_authorizer", "who may write grants is seen in answers"),
        Row(
            "denyserviceexternalips persistentvolumeclaimresize",
            "admission/test_defaultclasses",
            "claims, ingresses and services, recorded from kube-apiserver",
        ),
        Row(
            "alwayspullimages defaulttolerationseconds priority runtimeclass serviceaccount taintnodesbycondition",
            "admission/test_pods",
            "pods and nodes as the plugins leave them together, recorded from kube-apiserver",
        ),
        Row(
            "extendedresourcetoleration limitpodhardantiaffinitytopology podnamespaces podnodeselector podresizevalidator "
            "podtolerationrestriction podtopologylabels",
            "admission/test_podnodes",
            "pods and the rules about their nodes, recorded from kube-apiserver",
        ),
    ],
    "apimachinery": [Row("reviews", "authz/webhook/test_review", "reads the answers of webhooks")],
    "apimachinery/managedfields": [Row("entries", "apimachinery/managedfields/test_tracking", "entries are made by tracking")],
    "apimachinery/meta": [
        Row("selectorvalidation", "apis/admissionregistration/test_webhooks", "selectors of webhooks, in one table of problems"),
    ],
    "apimachinery/patches": [
        Row("elements", "apimachinery/patches/test_strategic_merge_patch", "the order of elements is seen in merged lists")
    ],
    "apimachinery/serializer/protobuf": [
        Row("errors messages values", "apimachinery/serializer/protobuf/test_encoding", "steps of encoding and decoding a message"),
    ],
    "apimachinery/serializer/yaml": [
        Row(
            "encoding scalars",
            "apimachinery/serializer/yaml/test_decoding",
            "what is encoded is decoded again; scalars are read by the decoder",
        ),
    ],
    "admission/webhook": [
        Row("dispatch", "admission/webhook/test_validating", "which webhooks are called, and what they are sent"),
    ],
    "apis/access": [Row("schema source", "authz/grants/test_authorizer", "grants are created, refused and served in one cluster alone")],
    "apis/admissionregistration": [
        Row("bindings matchresources mutations", "apis/admissionregistration/test_policies", "one table has cases of all kinds"),
        Row(
            "conditions defaults rules", "apis/admissionregistration/test_webhooks", "parts of one configuration, in one table of problems"
        ),
        Row("columns", "apis/admissionregistration/test_strategy", "seen in answers"),
    ],
    "apis/apiextensions": [
        Row("columns install", "server/handlers/test_crds", "install the rules and columns of the group, seen in answers")
    ],
    "apis/authentication": [Row("install", "apis/builtin/test_resources", "one table of the built-in resources")],
    "apis/authorization": [Row("install", "apis/builtin/test_resources", "one table of the built-in resources")],
    "apis/certificates": [
        Row("columns install strategy", "server/handlers/test_signing_requests", "the rules of the kind are seen in answers"),
    ],
    "apis/coordination": [Row("install", "apis/builtin/test_resources", "one table of the built-in resources")],
    "apis/core": [Row("install", "apis/builtin/test_resources", "one table of the built-in resources")],
    "apis/jwt": [Row("resource", "authn/oidc/test_clusters", "the rules of the kind are seen in answers")],
    "apis/kcp": [Row("install", "apis/builtin/test_resources", "one table of the built-in resources")],
    "apis/rbac": [
        Row("columns", "apis/core/test_columns", "one table of the columns of built-in kinds"),
        Row("install", "apis/builtin/test_resources", "one table of the built-in resources"),
    ],
    "apis/typed": [Row("cells", "apis/upstream/test_columns", "cells of tables are seen in the columns of kinds")],
    "apis/upstream": [
        Row(
            "autoscaler_columns network_columns pod_columns storage_columns workload_columns",
            "apis/upstream/test_columns",
            "one table of the columns of all kinds",
        ),
        Row("provider", "apis/upstream/test_resources", "provides the resources that are looked at"),
        Row("servicefields", "server/handlers/test_answers_of_services", "services are compared with those of kube-apiserver"),
    ],
    "authz/grants": [
        Row("labels", "authz/grants/test_clusterset", "the changes that sets of clusters are made from"),
        Row("union", "authz/grants/test_authorizer", "decisions and rules are seen in answers"),
    ],
    "bootstrap": [
        Row("go_fields", "apis/typed/test_structs", "loads the fields that structs are checked by"),
        Row("wire", "apimachinery/serializer/protobuf/test_encoding", "loads the table that messages are encoded by"),
    ],
    "cel": [
        Row(
            "branches calls checked emission expander loops ranges selections syntax",
            "cel/test_program",
            "steps of compilation, whose result is an expression that is evaluated",
        ),
        Row("call_estimates", "cel/test_estimate", "costs of calls are a part of the cost of an expression"),
    ],
    "cli": [
        Row("arguments exits flags groups version", "cli/test_root", "parts of the command line, seen as a user sees them"),
        Row("backup copies", "../e2e/test_storage_faults", "commands about a database in use"),
        Row("clusterapi", "cli/test_cluster", "the requests of the command"),
        Row("credentialrequests", "cli/test_clusterkubeconfig", "the requests of the command"),
        Row("controllersprocess", "cli/test_controllers", "the process of the command; e2e/test_controllers_apart.py runs it whole"),
        Row("definitions definitionyaml generate", "cli/test_generatecrds", "parts of the command, seen as a user sees them"),
        Row("doctor", "cli/test_examination", "prints what the examination finds"),
        Row("start", "cli/test_process", "the command of a process"),
        Row("tuning", "cli/test_process", "a step of the process"),
    ],
    "cli/envtest": [Row("apiserver warm", "cli/envtest/test_assets", "the processes are run by the program that starts them")],
    "cli/envtest/programs": [Row("etcd kube_apiserver kubectl", "cli/envtest/test_assets", "programs are written and then run")],
    "client": [
        Row("contract localreads requests", "client/test_local", "parts of the clients, which one suite compares"),
        Row("views", "client/test_clusterclient", "makes the clients of one cluster"),
    ],
    "library/types": [
        Row("columns", "library/types/test_described", "columns are a part of what is said about a type"),
        Row("conversion metadata", "library/types/test_resource", "types are served"),
        Row("fields markers", "library/types/test_schemas", "what is read from types is seen in their schemas"),
        Row("problems", "library/types/test_hooks", "what validators refuse is seen in answers"),
    ],
    "controllers": [Row("content starting", "controllers/test_namespaces", "parts of controllers, run as a whole")],
    "controllers/runtime": [Row("controller", "controllers/runtime/test_loop", "what a loop runs")],
    "authz/rbac": [Row("resolver", "authz/configuration/test_reloading", "rules of all authorizers of a server")],
    "authz/webhook": [Row("metrics", "authz/webhook/test_authorizer", "counts of calls")],
    "egress": [
        Row("clientconfig", "admission/webhook/test_definitions", "endpoints of webhooks"),
        Row("connecting", "egress/test_caller", "connections are made by calls"),
        Row("connections", "client/test_transport", "replaced where credentials are"),
        Row("operatorwebhook repeating", "authz/webhook/test_authorizer", "calls of webhooks over HTTPS"),
    ],
    "kubeconfig": [Row("webhook", "authz/webhook/test_authorizer", "opens the webhooks that are called")],
    "options": [
        Row("settings", "options/test_loading", "describes what is loaded"),
        Row("fields", "options/test_loading", "makes the fields of the table, which are loaded"),
    ],
    "registry": [
        Row("computed custom_resources subresources", "server/handlers/test_computed", "descriptions, seen in what is served"),
        Row("namespace_events", "server/handlers/test_namespace_objects", "events are seen by watches"),
        Row("clusterstate writerequest strategy", "registry/store", "values and hooks of every write"),
    ],
    "registry/store": [Row("visible", "authz/grants/test_wildcard_reads", "reads of some clusters, in pages and whole")],
    "registry/catalog": [
        Row("attachments", "library/test_subresources", "subresources are seen in discovery and in answers"),
        Row("crds static table upstream", "registry/catalog/test_tables", "sources, seen in the tables of clusters"),
        Row("servedevents", "controlplane/test_catalog", "events of a source, seen by watches"),
    ],
    "registry/rest": [
        Row("content", "registry/store/test_collection", "deletions of the tap"),
        Row(
            "answered apply computed computedwatch conform conversions create everywhere items kinds listing patch registry scale "
            "selection storage update verbs watching wildcardwatch",
            "server/handlers",
            "the verbs, asked over HTTP and by the client",
        ),
    ],
    "schema": [
        Row("contract", "registry/store/test_validation", "a protocol with the schema of anything"),
        Row("webhookclient", "apis/admissionregistration/test_webhooks", "URLs and services of webhooks, in one table of problems"),
    ],
    "schema/crd": [
        Row("conversion defaults openapi_schema shape structure versions", "schema/crd/test_validation", "rules of one report about a CRD"),
    ],
    "schema/jsonpath": [Row("steps", "schema/jsonpath/test_parser", "steps of an expression, seen in what it finds")],
    "schema/publish": [Row("kinds", "schema/publish/test_schemas", "kinds, seen in their schemas")],
    "schema/structural": [
        Row("embedded listtypes nodes places predicate report strictness values", "schema/test_schema_tables", "steps of one verdict"),
        Row("widths", "schema/test_hostile", "bounds of hostile schemas"),
    ],
    "server": [
        Row("connection", "library/test_subresources", "a connection needs a whole server"),
        Row("compression", "server/test_exchange", "compresses the responses of exchanges"),
    ],
    "server/handlers": [
        Row("stream", "library/test_subresources", "streams are seen in answers"),
        Row(
            "answer apihandler backend collection create documents get itemencoder tablecolumns tap target watchencoder",
            "server/handlers",
            "steps of each answer, asked over HTTP",
        ),
    ],
    "server/pages": [Row("application paths", "server/pages/test_fixed", "the pages of the application")],
    "serving": [
        Row("addresses", "serving/test_connectionlimits", "addresses share limits"),
        Row("context", "serving/test_connection", "what connections share"),
        Row("scope", "serving/test_connection", "what the application sees of a request"),
        Row("renewal", "serving/test_certificates", "renews the certificates of a server"),
    ],
    "serving/http1": [Row("events headfields refusals", "serving/http1/test_reader", "parts and results of the reader")],
    "storage": [Row("contract", "storage/memory/test_driver", "the suite of drivers is its test")],
    "storage/etcd": [Row("kv", "storage/etcd/test_driver", "requests of the driver")],
    "storage/shared": [Row("client", "storage/shared/test_owner", "the other end of the connection")],
    "storage/sqlite": [
        Row("counting", "storage/test_counting", "a capability of drivers, compared with their ranges"),
        Row("errors header locks salvage", "storage/sqlite/test_database", "what opening a file meets"),
        Row("checkpoint checksums", "storage/sqlite/test_integrity", "keep the file whole"),
        Row("filereads pages purging reader schema state", "storage/sqlite/test_driver", "parts of the driver, held to the suite"),
        Row("rewriting", "storage/sqlite/test_migration", "rewrites a database of an older format"),
    ],
    "testing": [
        Row("faultpoints faultrules", "testing/test_faults", "rules are seen in the requests that they change"),
        Row("settling", "testing/test_clock", "controllers are waited for between two times"),
        Row("objects", "testing/test_round_trip", "makes the objects of the round trips"),
        Row("client_objects client_reads client_watches client_writes", "client/test_remote", "suites: they are tests themselves"),
        Row(
            "storage_calls storage_compactions storage_reads storage_watches storage_writes",
            "storage/memory/test_driver",
            "suites: they are tests themselves",
        ),
        Row("storage_model", "testing/test_storage_machine", "the machine compares with it"),
        Row("edge users", "testing/test_blocking", "parts of a server, seen through it"),
        Row("requests", "testing/test_recording", "a recording has what it sees"),
        Row("parents process", "cli/test_testserver", "the process is their behaviour"),
    ],
    "watchcache": [Row("event", "watchcache/test_fanout", "seen in what the fan-out delivers")],
}

SUITES: Final[dict[str, tuple[str, str]]] = {
    "admission/policy": ("answers underload", "recorded answers to whole requests, and changes of policies while others write"),
    "authn/serviceaccount": ("attacks legacy", "tokens that are wrong in one way, and those of secrets, through the whole server"),
    "apimachinery/managedfields": ("properties", "compares implementations of the same rules"),
    "apimachinery/serializer/protobuf": ("golden oracle", "compare whole messages with those of others"),
    "apis/typed": ("corpus", "real objects of every kind"),
    "authz": (
        "canaries crossings lives logicalclusters operators",
        "what tenants can do to each other and in their own clusters, through the whole server",
    ),
    "authz/grants": ("random_changes wildcard_reads", "what grantees read over all clusters, through the whole server"),
    "cel": ("conformance differential init", "compare the whole language with other implementations"),
    "controllers/garbage": ("model", "random histories of owners and dependents"),
    "controlplane": ("cluster_annotation corpus filters imports keys revocation", "features of the whole control plane"),
    "library": ("containment", "failures of functions of a program at every place, through the whole server"),
    "schema": ("corpus hostile properties schema_tables", "real and hostile definitions, upstream's tables"),
    "schema/rules": ("costs", "estimated against real costs of rules"),
    "server": ("raw_requests", "every byte of a request, through all parts of the edge"),
    "server/handlers": ("*", "features of the API over HTTP, each through all handlers"),
    "serving": ("closing_clients", "clients that close, against a whole server"),
    "storage/etcd": ("freshness suite", "the driver's suite against other versions of etcd, and that a cache over it is never stale"),
    "storage/sqlite": ("kill migration", "the whole driver, killed or of another version"),
}
"""Folder below tests/ -> names of tests without `test_` (`*`: any), and why they stand for no single module."""


def main() -> None:
    if wrong := [*untested(ROOT, ELSEWHERE), *foreign(ROOT, SUITES)]:
        sys.exit("\n".join(wrong))


def untested(root: Path, elsewhere: Mapping[str, Sequence[Row]]) -> list[str]:
    """Modules without a test, and rows of `elsewhere` that are not needed."""
    package, tests = root / "kcp_py", root / "tests"
    rows = {(folder, module): row for folder, found in elsewhere.items() for row in found for module in row.modules.split()}
    wrong = []
    for module in sorted(package.rglob("*.py")):
        place = module.relative_to(package)
        folder = "" if place.parent == Path() else place.parent.as_posix()
        if module.name == "__init__.py":
            continue
        row = rows.pop((folder, module.stem), None)
        own = [*(tests / folder).glob(f"test_{module.stem}.py"), *(tests / folder).glob(f"test_{module.stem}_*.py")]
        if row is None and not own and has_behaviour(module.read_text("utf-8")):
            wrong.append(
                f"kcp_py/{place}: needs tests/{place.parent / f'test_{place.name}'}, or a row in ELSEWHERE of hack/verify_tests.py"
            )
        elif row is not None and (tests / folder / f"test_{module.stem}.py").exists():
            wrong.append(f"hack/verify_tests.py: {folder}/{module.stem} has tests of its own, its entry in ELSEWHERE can go")
    wrong += [f"hack/verify_tests.py: there is no module {folder}/{module}, its entry in ELSEWHERE can go" for folder, module in rows]
    named = {row.tests for found in elsewhere.values() for row in found}
    wrong += [
        f"hack/verify_tests.py: ELSEWHERE names tests/{name}, which does not exist"
        for name in sorted(named)
        if not (tests / f"{name}.py").exists() and not any((tests / name).glob("test_*.py"))
    ]
    return wrong


def has_behaviour(source: str) -> bool:
    """Whether a module has a function whose body is more than a docstring and `...`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.body[-1]
            if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)):
                return True
    return False


def foreign(root: Path, suites: Mapping[str, tuple[str, str]]) -> list[str]:
    """Tests without a module, and entries of `suites` that are not needed."""
    package, tests = root / "kcp_py", root / "tests"
    wrong = []
    needed = set()
    for test in sorted(tests.rglob("test_*.py")):
        place = test.relative_to(tests)
        name = test.stem.removeprefix("test_")
        if place.parts[0] in FREE or place.parent == Path() or _module_of(package / place.parent, name):
            continue
        folder = place.parent.as_posix()
        names, _ = suites.get(folder, ("", ""))
        entry = "*" if names == "*" else name
        needed.add((folder, entry))
        if entry not in names.split():
            wrong.append(f"tests/{place}: there is no kcp_py/{folder}/{name}.py; rename it, or add it to SUITES of hack/verify_tests.py")
    return wrong + [
        f"hack/verify_tests.py: {folder}/{name} in SUITES can go"
        for folder, (names, _) in suites.items()
        for name in names.split()
        if (folder, name) not in needed
    ]


def _module_of(folder: Path, name: str) -> bool:
    """Whether `name` is that of a module or a package, or of an aspect of one: `MODULE_ASPECT`."""
    parts = name.split("_")
    return any(
        (folder / f"{stem}.py").exists() or (folder / stem).is_dir() for at in range(1, len(parts) + 1) if (stem := "_".join(parts[:at]))
    )


if __name__ == "__main__":
    main()
