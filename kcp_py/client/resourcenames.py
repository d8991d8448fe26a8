"""`find_named`: the resource that a text names on the command line of kubectl."""

from __future__ import annotations

from collections.abc import Iterable

from kcp_py.client.contract import ApiResource


def find_named(resources: Iterable[ApiResource], text: str) -> ApiResource | None:
    """The first resource that a text names, None where there is none.

    The text is a plural, a singular, a short name or a kind in any case: `configmaps`, `cm` or `ConfigMap`. A group may follow,
    or the beginning of one, or a version and a group: `deployments.apps`, `deployments.v1.apps`. A plural or a singular
    counts before a short name, as in the RESTMapper of client-go.

    Args:
        resources: in the order of discovery.
        text: the argument.
    """
    name, _, rest = text.lower().partition(".")
    version, dot, group = rest.partition(".")
    served = list(resources)
    found = [one for one in served if name in {one.resource.resource, one.singular or one.kind.lower()}]
    found += [one for one in served if name in one.short_names]
    exact = (one for one in found if dot and (one.resource.version, one.resource.group) == (version, group))
    return next(exact, None) or next((one for one in found if one.resource.group.startswith(rest)), None)
