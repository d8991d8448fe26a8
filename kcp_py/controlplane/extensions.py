"""`Extensions`: what a program adds to its control plane, as arguments or afterwards by decorators."""

from __future__ import annotations

from collections.abc import Sequence

from kcp_py.authn.authenticator import Authenticator
from kcp_py.authz.authorizer import Authorizer
from kcp_py.controllers import ControllerFactory
from kcp_py.controlplane.catalog import Api
from kcp_py.registry.admission import AdmissionPlugin
from kcp_py.server.chain import Filter


class Extensions:
    """The base of `ControlPlane`: collects extensions until the control plane is entered.

    Each decorator makes an object of a class that the constructor of `ControlPlane` takes, too, and appends it here. The decorators are
    methods of a few lines; the classes are those of the package `library`, which is imported when they are used.
    """

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
        self._apis = list(apis)
        self._authenticators = list(authenticators)
        self._authorizers = list(authorizers)
        self._admission = list(admission)
        self._filters = list(filters)
        self._controllers = list(controllers)
        self._entered = False

    @property
    def apis(self) -> Sequence[Api]:
        """The resources and sources that have been added."""
        return tuple(self._apis)

    def _check_open(self) -> None:
        """Each decorator calls it first.

        Raises:
            RuntimeError: the control plane has been entered.
        """
        if self._entered:
            raise RuntimeError("the control plane is running: add resources, hooks and controllers before it is entered")
