"""`Extensions`: what a program adds to its control plane, as arguments or afterwards by decorators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

from kcp_py.authn.authenticator import Authenticator
from kcp_py.authz.authorizer import Authorizer
from kcp_py.controllers import ControllerFactory
from kcp_py.controlplane.catalog import Api
from kcp_py.controlplane.surroundings import Surroundings
from kcp_py.registry.admission import AdmissionPlugin
from kcp_py.registry.catalog.attachments import Attachment
from kcp_py.server.chain import Filter

if TYPE_CHECKING:
    from kcp_py.apimachinery.kinds import GroupVersionKind
    from kcp_py.client import LocalClient
    from kcp_py.library.hooks import MutatingFunction, ValidatingFunction
    from kcp_py.library.identity import Authenticating, Authorizing
    from kcp_py.library.reconciling.controllers import Controllers
    from kcp_py.library.reconciling.function import Kind, ReconcileOptions
    from kcp_py.library.subresources import Serving
    from kcp_py.library.types.resource import ResourceSettings

    C = TypeVar("C", bound=type)
    M = TypeVar("M", bound=MutatingFunction)
    V = TypeVar("V", bound=ValidatingFunction)
    A = TypeVar("A", bound=Authenticating)
    Z = TypeVar("Z", bound=Authorizing)
    F = TypeVar("F", bound=Callable[..., Any])
    S = TypeVar("S", bound=Serving)


def _check_parts(**given: Sequence[object]) -> None:
    """A part of the wrong form would fail each request, far from the line that has added it.

    Raises:
        TypeError: a part has not the form of its argument; the text says how functions are added.
    """
    for argument, parts in given.items():
        method, decorators = _FORMS[argument]
        for part in parts:
            if not callable(getattr(part, method, None)):
                how = f"; a function is added by {decorators}" if decorators and callable(part) else ""
                raise TypeError(f"{argument}: {part!r} has no method {method}{how}")


_FORMS: Final = {
    "authenticators": ("authenticate", "@control_plane.authenticator"),
    "authorizers": ("authorize", "@control_plane.authorizer"),
    "admission": ("validate", "@control_plane.mutating or @control_plane.validating"),
    "filters": ("__call__", ""),
    "controllers": ("__call__", ""),
}
"""Argument -> the method of its objects, and the decorator for a function."""


class Extensions(Surroundings):
    """The base of `ControlPlane`: collects extensions until the control plane is entered.

    Each decorator makes an object of a class that the constructor of `ControlPlane` takes, too, and appends it here. The decorators are
    methods of a few lines; the classes are those of the package `library`, which is imported when they are used.
    """

    client: LocalClient

    def __init__(
        self,
        *,
        apis: Sequence[Api] = (),
        authenticators: Sequence[Authenticator] = (),
        authorizers: Sequence[Authorizer] = (),
        admission: Sequence[AdmissionPlugin] = (),
        filters: Sequence[Filter] = (),
        controllers: Sequence[ControllerFactory] = (),
    ) -> None:
        _check_parts(authenticators=authenticators, authorizers=authorizers, admission=admission, filters=filters, controllers=controllers)
        super().__init__()
        self._apis = list(apis)
        self._authenticators = list(authenticators)
        self._authorizers = list(authorizers)
        self._admission = list(admission)
        self._filters = list(filters)
        self._controllers = list(controllers)
        self._reconcilers: Controllers | None = None
        self._subresources: list[Attachment] = []

    @property
    def reconcilers(self) -> Controllers | None:
        """The functions of `reconcile`, which `kcp-py controllers --app` runs in a process of their own; None without any."""
        return self._reconcilers

    @property
    def apis(self) -> Sequence[Api]:
        """The resources and sources that have been added."""
        return tuple(self._apis)

    def extend(
        self,
        *,
        apis: Sequence[Api] = (),
        authenticators: Sequence[Authenticator] = (),
        authorizers: Sequence[Authorizer] = (),
        admission: Sequence[AdmissionPlugin] = (),
        filters: Sequence[Filter] = (),
        controllers: Sequence[ControllerFactory] = (),
    ) -> None:
        """Add to what the constructor got, behind it.

        Raises:
            RuntimeError: the control plane has been entered.
        """
        self._check_open()
        _check_parts(authenticators=authenticators, authorizers=authorizers, admission=admission, filters=filters, controllers=controllers)
        self._apis += apis
        self._authenticators += authenticators
        self._authorizers += authorizers
        self._admission += admission
        self._filters += filters
        self._controllers += controllers

    @property
    def _has_extensions(self) -> bool:
        """Whether functions of the program run on the event loop of the server."""
        of_api = self._apis or self._authenticators or self._authorizers or self._admission or self._filters or self._controllers
        return bool(of_api or self._subresources or self._routes or self._mounts or self._middleware)

    def add(self, *apis: Api) -> None:
        """Serve further resources: `apis` of the constructor.

        Raises:
            RuntimeError: the control plane has been entered.
        """
        self._check_open()
        self._apis.extend(apis)

    def resource(self, **settings: Unpack[ResourceSettings]) -> Callable[[C], C]:
        """Have a Pydantic model or a dataclass describe a resource, and serve it: `kcp_py.resource` and `add`.

        Raises:
            RuntimeError: the control plane has been entered.
            TypeError: the class cannot be a resource. The message begins with the class and the field.
        """
        self._check_open()
        from kcp_py.library.types.resource import resource  # noqa: PLC0415

        describe = resource(**settings)

        def add(cls: C) -> C:
            described = describe(cls)
            # A further version comes with its hub.
            if settings.get("hub") is None:
                self.add(described)
            return described

        return add

    def mutating(
        self,
        *resources: str | type,
        operations: Collection[str] = ("CREATE", "UPDATE"),
        clusters: Collection[str] | None = None,
        namespaces: Collection[str] | None = None,
        namespaced: bool | None = None,
        labels: str = "",
        thread: bool = False,
        name: str = "",
    ) -> Callable[[M], M]:
        """Have a function change objects before they are validated.

        The function takes `Attributes` and changes `attributes.obj` in place, or returns the object that takes its place. It refuses the
        write by raising a `StatusError` of `errors`. It may be a coroutine function.

        A function whose parameter has the type of a class with `@resource` gets the object as one of the class, and changes or returns
        that. Further parameters are `old`, the object before the write or None, and `attributes`.

        Args:
            resources: such as `configmaps`, `deployments.apps`, `deployments.apps/scale`, `*.apps`; or a class with `@resource`. Without
                any: the resource of the class that the function takes, else every resource, and no subresource.
            operations: of `CREATE`, `UPDATE`, `DELETE`, `CONNECT`; `*` for all.
            clusters: names of logical clusters; None for all.
            namespaces: names of namespaces; None for all.
            namespaced: whether the resources have namespaces; None for both.
            labels: a selector that the labels of the new object or of the old one match.
            thread: whether a plain function runs in a thread, because it blocks.
            name: by which operators switch the function off, with `--disable-admission-plugins`; by default `module.function`.

        Raises:
            RuntimeError: the control plane has been entered.
            ValueError: an argument has no meaning.
            TypeError: the function is a coroutine function that shall run in a thread, or has a parameter that cannot be filled.
        """
        self._check_open()
        from kcp_py.library.hooks import MutatingHook, hooks  # noqa: PLC0415
        from kcp_py.library.rules import RuleSettings  # noqa: PLC0415

        rule = RuleSettings(operations=operations, clusters=clusters, namespaces=namespaces, namespaced=namespaced, labels=labels)
        hook_of = hooks(MutatingHook, resources, rule, thread=thread, name=name)

        def add(function: M) -> M:
            self._admission.append(hook_of(function))
            return function

        return add

    def validating(
        self,
        *resources: str | type,
        operations: Collection[str] = ("CREATE", "UPDATE"),
        clusters: Collection[str] | None = None,
        namespaces: Collection[str] | None = None,
        namespaced: bool | None = None,
        labels: str = "",
        thread: bool = False,
        name: str = "",
    ) -> Callable[[V], V]:
        """Have a function refuse writes after they are validated.

        The function takes `Attributes`, or an object of a class. It refuses the write by returning a text (403), by returning the errors of
        fields (422, see `fielderrors`), or by raising a `StatusError` of `errors`. The arguments and errors are those of `mutating`.
        """
        self._check_open()
        from kcp_py.library.hooks import ValidatingHook, hooks  # noqa: PLC0415
        from kcp_py.library.rules import RuleSettings  # noqa: PLC0415

        rule = RuleSettings(operations=operations, clusters=clusters, namespaces=namespaces, namespaced=namespaced, labels=labels)
        hook_of = hooks(ValidatingHook, resources, rule, thread=thread, name=name)

        def add(function: V) -> V:
            self._admission.append(hook_of(function))
            return function

        return add

    @overload
    def authenticator(self, function: A, /) -> A: ...
    @overload
    def authenticator(self, /, *, thread: bool = False) -> Callable[[A], A]: ...
    def authenticator(self, function: A | None = None, /, *, thread: bool = False) -> A | Callable[[A], A]:
        """Have a function find out who makes a request: it takes `Credentials` and returns a `UserInfo`, or None where it does not know.

        It is asked before client certificates and tokens, behind the functions that were added before it. It refuses a credential by
        raising `errors.unauthorized()`.

        Args:
            function: a coroutine function or a plain one.
            thread: whether a plain function runs in a thread, because it blocks.

        Raises:
            RuntimeError: the control plane has been entered.
            TypeError: the function is a coroutine function that shall run in a thread.
        """
        self._check_open()
        from kcp_py.library.identity import FunctionAuthenticator  # noqa: PLC0415

        def add(function: A) -> A:
            self._authenticators.append(FunctionAuthenticator(function, thread=thread))
            return function

        return add if function is None else add(function)

    @overload
    def authorizer(self, function: Z, /) -> Z: ...
    @overload
    def authorizer(self, /, *, thread: bool = False) -> Callable[[Z], Z]: ...
    def authorizer(self, function: Z | None = None, /, *, thread: bool = False) -> Z | Callable[[Z], Z]:
        """Have a function decide what users may do: it takes the `UserInfo`, the logical cluster or `WILDCARD`, and the `RequestInfo`.

        It returns True to allow the request in its cluster, False to refuse it, None to leave the decision to other authorizers, or a
        `Decision`, which a request over all clusters needs. It is asked before the group `system:masters` and RBAC. Arguments and errors
        are those of `authenticator`.
        """
        self._check_open()
        from kcp_py.library.identity import FunctionAuthorizer  # noqa: PLC0415

        def add(function: Z) -> Z:
            self._authorizers.append(FunctionAuthorizer(function, thread=thread))
            return function

        return add if function is None else add(function)

    def reconcile(self, kind: Kind, **options: Unpack[ReconcileOptions]) -> Callable[[F], F]:
        """Have a function called for each object of a kind whenever the object may have changed: `Controllers.reconcile`.

        Raises:
            RuntimeError: the control plane has been entered.
            TypeError: a parameter of the function cannot be filled.
            ValueError: the name is taken.
        """
        self._check_open()
        from kcp_py.library.reconciling import Controllers  # noqa: PLC0415

        functions = self._reconcilers = self._reconcilers if self._reconcilers is not None else Controllers()
        register = functions.reconcile(kind, **options)

        def add(function: F) -> F:
            register(function)
            self._controllers.append(functions[-1])
            return function

        return add

    def subresource(
        self,
        resource: str,
        name: str,
        *,
        verb: str = "create",
        kind: GroupVersionKind | None = None,
        schema: Mapping[str, Any] | None = None,
        clusters: Collection[str] | None = None,
        override: bool = False,
    ) -> Callable[[S], S]:
        """Have a function, or a `RestStorage`, serve a subresource of any resource: a built-in one, an own one, or that of a CRD.

        A function serves one verb and is called behind authentication and authorization (`foos/base64`), with the object:
        `get(request, obj)`, `create(request, obj, body)`, `update(request, obj, body)`. It returns the answer. With `get` and `update`,
        which are added one after the other, the subresource can be patched, too. With the verb `connect` it takes a `Connection`, and
        answers with a stream or with anything else.

        Args:
            resource: such as `pods`, `deployments.apps`, `foos.example.com`.
            name: the last segment of the URL.
            verb: `get`, `create`, `update` or `connect`; the verbs of a `RestStorage` are its methods.
            kind: of bodies and answers; by default that of the resource. Of `connect`: the kind of options that admission sees; without
                one, admission is not asked.
            schema: OpenAPI v3 of the kind, by which bodies are checked, pruned and filled with defaults.
            clusters: logical clusters in which the resource of a CRD has it; None for all.
            override: whether it takes the place of a subresource of the same name. Without it, one of a resource that every cluster serves
                is an error when the control plane is entered, and one that a CRD defines keeps its place.

        Raises:
            RuntimeError: the control plane has been entered.
            ValueError: an argument has no meaning, or the subresource has the verb already.
            TypeError: the function has other parameters.
        """
        self._check_open()
        from kcp_py.library.subresources import Place, attach  # noqa: PLC0415

        place = Place(resource, name, verb=verb, kind=kind, schema=schema, clusters=clusters, override=override)

        def add(serving: S) -> S:
            attach(self._subresources, serving, place, lambda: self.client)
            return serving

        return add
