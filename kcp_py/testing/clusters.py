"""`Cluster`: a logical cluster of one test, with its kubeconfig and its objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client.contract import ApiResource, Client
from kcp_py.client.resourcenames import find_named
from kcp_py.kubeconfig import kubeconfig_of
from kcp_py.logicalcluster import Name
from kcp_py.tenancy.snapshots import Restored, Snapshot, Snapshots

CRDS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
Objects = list[dict[str, Any]]
Source = str | Path | Mapping[str, Any]
"""Objects: one object, a file of manifests (YAML or JSON), or a directory of such files, which is read with its subdirectories."""
_FIELD_MANAGER: Final = "kcp-py-testing"
_PATIENCE: Final = 30.0
_SUFFIXES: Final = frozenset((".yaml", ".yml", ".json"))


class ClusterObjects:
    """The objects of one logical cluster, by the names that kubectl takes."""

    def __init__(self, client: Client, cluster: Name) -> None:
        self._client = client
        self._cluster = cluster

    async def apply(self, *sources: Source) -> list[dict[str, Any]]:
        """Apply objects on the server side, definitions first; wait until these are established.

        Args:
            sources: objects, files or directories. Namespaced objects without a namespace go to `default`.

        Returns:
            The objects as they are stored, in the order of the sources, definitions first.

        Raises:
            StatusError: an object is refused.
            ValueError: a file is not a manifest, or the cluster does not serve the kind.
            OSError: a file cannot be read.
            TimeoutError: a definition is not established after 30 seconds.
        """
        objects = [obj for source in sources for obj in await asyncio.to_thread(read_objects, source)]
        definitions = [obj for obj in objects if obj.get("kind") == "CustomResourceDefinition"]
        applied = [await self._apply(obj) for obj in definitions]
        for definition in definitions:
            await self.wait_for("customresourcedefinitions.apiextensions.k8s.io", definition["metadata"]["name"], is_established)
        return applied + [await self._apply(obj) for obj in objects if obj.get("kind") != "CustomResourceDefinition"]

    async def _apply(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
        found = await self._client.find_kind(self._cluster, api_version, kind)
        if found is None:
            raise ValueError(f"the cluster {self._cluster} does not serve the kind {kind!r} of {api_version!r}")
        metadata = dict(obj.get("metadata") or {})
        if found.namespaced:
            metadata.setdefault("namespace", "default")
        return await self._client.apply(
            self._cluster, found.resource, {**obj, "metadata": metadata}, field_manager=_FIELD_MANAGER, force=True
        )

    async def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """One object.

        Args:
            resource: as `configmaps`, `cm` or `deployments.apps`.
            name: of the object.
            namespace: not used for cluster-scoped resources.

        Raises:
            StatusError: 404.
            ValueError: the cluster does not serve the resource.
        """
        found = await self._find(resource)
        return await self._client.get(self._cluster, found.resource, namespace if found.namespaced else "", name)

    async def list(self, resource: str, namespace: str = "", *, label_selector: str = "") -> list[dict[str, Any]]:
        """All objects, or those of a namespace.

        Raises:
            StatusError: the selector cannot be read.
            ValueError: the cluster does not serve the resource.
        """
        found = await self._find(resource)
        listed = await self._client.list(self._cluster, found.resource, namespace, label_selector=label_selector)
        return list(listed.items)

    async def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        """Delete an object.

        Raises:
            StatusError: 404.
            ValueError: the cluster does not serve the resource.
        """
        found = await self._find(resource)
        await self._client.delete(self._cluster, found.resource, namespace if found.namespaced else "", name)

    async def wait_for(
        self,
        resource: str,
        name: str,
        condition: Callable[[dict[str, Any]], object],
        namespace: str = "default",
        *,
        timeout: float = _PATIENCE,
    ) -> dict[str, Any]:
        """Wait for an object of which a condition is true. The object need not exist yet.

        Args:
            resource: as in `get`.
            name: of the object.
            condition: called with every state of the object; KeyError, IndexError and TypeError count as not true.
            namespace: as in `get`.
            timeout: seconds.

        Returns:
            The object for which the condition was true.

        Raises:
            TimeoutError: with the last state of the object.
            ValueError: the cluster does not serve the resource.
        """
        found = await self._find(resource)
        namespace = namespace if found.namespaced else ""
        last: Objects = []
        try:
            async with asyncio.timeout(timeout):
                return await self._follow(found.resource, name, namespace, condition=condition, last=last)
        except TimeoutError:
            state = repr(last[-1]) if last else "it does not exist"
            raise TimeoutError(f"{resource} {name}: the condition was not met in {timeout:g} s; last state: {state}") from None

    async def wait_gone(
        self,
        resource: str,
        name: str,
        namespace: str = "default",
        *,
        timeout: float = _PATIENCE,
    ) -> None:
        """Wait until an object does not exist.

        Raises:
            TimeoutError: it still exists.
            ValueError: the cluster does not serve the resource.
        """
        found = await self._find(resource)
        namespace, selector = namespace if found.namespaced else "", f"metadata.name={name}"
        try:
            async with asyncio.timeout(timeout):
                while True:
                    listed = await self._client.list(self._cluster, found.resource, namespace, field_selector=selector)
                    if not listed.items:
                        return
                    events = self._client.watch(
                        self._cluster, found.resource, namespace, field_selector=selector, resource_version=listed.resource_version
                    )
                    try:
                        async for event in events:
                            if event.type == "DELETED":
                                return
                    except StatusError as error:
                        if error.code != 410:
                            raise
                    finally:
                        await events.aclose()
        except TimeoutError:
            raise TimeoutError(f"{resource} {name} still exists after {timeout:g} s") from None

    async def _follow(
        self,
        resource: GroupVersionResource,
        name: str,
        namespace: str,
        *,
        condition: Callable[[dict[str, Any]], object],
        last: Objects,
    ) -> dict[str, Any]:
        selector = f"metadata.name={name}"
        while True:
            listed = await self._client.list(self._cluster, resource, namespace, field_selector=selector)
            for obj in listed.items:
                last[:] = [obj]
                if holds(condition, obj):
                    return obj
            events = self._client.watch(
                self._cluster, resource, namespace, field_selector=selector, resource_version=listed.resource_version
            )
            try:
                async for event in events:
                    last[:] = [] if event.type == "DELETED" else [event.obj]
                    if event.type != "DELETED" and holds(condition, event.obj):
                        return event.obj
            except StatusError as error:
                # The changes since the list are not known any more: list again.
                if error.code != 410:
                    raise
            finally:
                await events.aclose()

    async def _find(self, resource: str) -> ApiResource:
        name, _, group = resource.partition(".")
        found = await self._client.find_resource(self._cluster, GroupResource(group, name))
        if found is None:
            found = find_named(await self._client.resources(self._cluster), resource)
        if found is None:
            raise ValueError(f"the cluster {self._cluster} does not serve {resource!r}")
        return found


class Access:
    """How clients reach a server: its URL, its authority and a token."""

    def __init__(self, url: str, *, authority: bytes | None, token: str) -> None:
        """Keep the parts.

        Args:
            url: without a slash at its end.
            authority: PEM; None for plain HTTP.
            token: of the administrator.
        """
        self.url = url
        self.authority = authority
        self.token = token

    def kubeconfig(self, cluster: str, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> dict[str, Any]:
        """A kubeconfig for one logical cluster."""
        import base64  # noqa: PLC0415 - the first kubeconfig needs it

        trust = {} if self.authority is None else {"certificate-authority-data": base64.b64encode(self.authority).decode()}
        return kubeconfig_of(
            {"server": f"{self.url}/clusters/{cluster}", **trust},
            {"token": self.token if token is None else token},
            cluster_name=cluster,
            user_name=user,
            context_name=cluster,
            namespace=namespace,
        )


class Cluster(ClusterObjects):
    """A logical cluster. It exists from its first use on, and ends with the server."""

    def __init__(
        self, client: Client, name: Name, *, access: Callable[[], Access], directory: Callable[[], Path], snapshots: Snapshots
    ) -> None:
        """Name a cluster.

        Args:
            client: of the server, in the process.
            name: of the cluster.
            access: how clients reach the server over HTTP.
            directory: where files go.
            snapshots: of the server.
        """
        super().__init__(client, name)
        self.name = name
        self.client = client
        self._access = access
        self._directory = directory
        self._snapshots = snapshots

    async def save(self) -> Snapshot:
        """The content of the cluster, at one revision.

        Raises:
            StatusError: 404, the cluster was deleted; 503, the store cannot be read.
        """
        return await self._snapshots.save(self.name)

    async def restore(self, snapshot: Snapshot) -> Restored:
        """Make the content of the cluster that of a snapshot; what came later is deleted, and watches see it.

        Objects of a snapshot of another cluster get new uids, in owner references too.

        Raises:
            StatusError: as `Snapshots.restore`.
        """
        if snapshot.cluster == self.name:
            return await self._snapshots.restore(snapshot)
        return await self._snapshots.clone(snapshot, self.name)

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT/clusters/NAME`.

        Raises:
            RuntimeError: the server does not serve HTTP, see `LocalServer.serve`.
        """
        return f"{self._access().url}/clusters/{self.name}"

    def kubeconfig(self, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> dict[str, Any]:
        """A kubeconfig for this cluster.

        Args:
            token: of `LocalServer.add_user`; without it that of the administrator.
            user: the name of the user in the kubeconfig.
            namespace: of the context; empty for `default`.

        Raises:
            RuntimeError: as in `url`.
        """
        return self._access().kubeconfig(self.name, token=token, user=user, namespace=namespace)

    def kubeconfig_text(self, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> str:
        """The kubeconfig as YAML."""
        import yaml  # noqa: PLC0415 - dicts do without it

        return yaml.safe_dump(self.kubeconfig(token=token, user=user, namespace=namespace), sort_keys=False)

    def write_kubeconfig(self, path: Path | None = None, *, token: str | None = None, user: str = "kcp-admin", namespace: str = "") -> Path:
        """Write the kubeconfig into a file with mode 0600.

        Args:
            path: the file; without it one in the directory of the server, which is removed with the server.
            token: as in `kubeconfig`.
            user: as in `kubeconfig`.
            namespace: as in `kubeconfig`.

        Returns:
            The path.
        """
        from kcp_py.serving.files import write_private_file  # noqa: PLC0415 - of servers that are reached over HTTP

        text = self.kubeconfig_text(token=token, user=user, namespace=namespace)
        target = self._directory() / f"{self.name.replace(':', '.')}.{user.replace('/', '_')}.kubeconfig" if path is None else path
        # It is of use for as long as the server runs.
        write_private_file(target, text.encode(), durable=False)
        return target


def read_objects(source: Source) -> list[dict[str, Any]]:
    """The objects of a source, those of lists one by one.

    Raises:
        ValueError: it is not a manifest.
        OSError: it cannot be read.
    """
    if isinstance(source, Mapping):
        return _unlisted([source], "the object")
    import yaml  # noqa: PLC0415 - objects do without it

    path = Path(source)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[dict[str, Any]] = []
    for file in _files(path):
        try:
            # The loader is one of the safe ones.
            documents = list(yaml.load_all(file.read_text("utf-8"), Loader=loader))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{file}: {' '.join(str(error).split())}") from None
        found += _unlisted(documents, str(file))
    return found


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    return [path]


def _unlisted(documents: Iterable[Any], place: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
            raise ValueError(f"{place}: not a manifest: an object needs a kind")  # noqa: TRY004 # the content of the file is wrong
        if document["kind"] == "List" or (document["kind"].endswith("List") and isinstance(document.get("items"), list)):
            found += _unlisted(document.get("items") or [], place)
        else:
            found.append(dict(document))
    return found


def is_established(definition: Mapping[str, Any]) -> bool:
    """Whether a CustomResourceDefinition is served."""
    conditions = definition["status"]["conditions"]
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def holds(condition: Callable[[dict[str, Any]], object], obj: dict[str, Any]) -> bool:
    """Whether a condition is true of an object; a field that it does not have yet makes it not true."""
    try:
        return bool(condition(obj))
    except (LookupError, TypeError):
        return False
