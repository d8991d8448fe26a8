"""Tests of get, list and discovery, for `kcp_py.testing.client_suite`."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS, GroupVersionKind, GroupVersionResource
from kcp_py.client.contract import Client, ObjectList
from kcp_py.logicalcluster import WILDCARD
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, WIDGETS, config_map, serve_widgets, widget


def _names(found: ObjectList) -> list[str]:
    return [one["metadata"]["name"] for one in found.items]


class ClientReadTests:
    """Reads of a client."""

    async def test_an_object_has_its_kind_version_and_cluster(self, client: Client) -> None:
        """A get returns the created object with apiVersion, kind, resourceVersion and the annotation of the cluster."""
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        found = await client.get(TEAM, CONFIG_MAPS, "default", "one")
        assert found == made
        assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")
        assert found["metadata"]["annotations"]["kcp.io/cluster"] == "team-a"

    async def test_a_missing_object_is_named(self, client: Client) -> None:
        """The error has the reason, the message and the details of the API."""
        with pytest.raises(StatusError) as caught:
            await client.get(TEAM, CONFIG_MAPS, "default", "none")
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")
        assert caught.value.message == 'configmaps "none" not found'
        assert caught.value.details == {"name": "none", "kind": "configmaps"}

    async def test_an_unserved_resource_is_not_an_absent_object(self, client: Client) -> None:
        """The error does not name an object."""
        for request in (client.get(TEAM, WIDGETS, "default", "x"), client.list(TEAM, WIDGETS), client.list(WILDCARD, WIDGETS)):
            with pytest.raises(StatusError) as caught:
                await request
            assert (caught.value.code, caught.value.reason) == (404, "NotFound")
            assert caught.value.message == "the server could not find the requested resource"
            assert not (caught.value.details or {}).get("name")

    async def test_metadata_alone(self, client: Client) -> None:
        """A get and a list of metadata return objects without data."""
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        expected = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": made["metadata"]}
        assert await client.get(TEAM, CONFIG_MAPS, "default", "one", metadata_only=True) == expected
        (found,) = (await client.list(TEAM, CONFIG_MAPS, "default", metadata_only=True)).items
        assert found["metadata"] == made["metadata"]
        assert "data" not in found

    async def test_items_of_a_list_are_whole_objects(self, client: Client) -> None:
        """Each item equals the result of a get, for built-in and custom resources."""
        await serve_widgets(client, TEAM)
        for resource, obj in ((CONFIG_MAPS, config_map("one")), (WIDGETS, widget("one", size=1))):
            made = await client.create(TEAM, resource, obj)
            assert (await client.list(TEAM, resource, "default")).items == [made]

    async def test_clusters_do_not_see_each_other(self, client: Client) -> None:
        """An object is found in its own cluster and over all clusters, but not in other clusters."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await client.create(OTHER, CONFIG_MAPS, config_map("two"))
        assert _names(await client.list(TEAM, CONFIG_MAPS)) == ["one"]
        assert _names(await client.list(OTHER, CONFIG_MAPS)) == ["two"]
        assert [one["metadata"]["annotations"]["kcp.io/cluster"] for one in (await client.list(WILDCARD, CONFIG_MAPS)).items] == [
            TEAM,
            OTHER,
        ]
        with pytest.raises(StatusError) as caught:
            await client.get(OTHER, CONFIG_MAPS, "default", "one")
        assert caught.value.code == 404

    async def test_a_crd_is_served_in_its_own_cluster_alone(self, client: Client) -> None:
        """Its kind and its resource are found in its cluster, and not in other clusters."""
        await serve_widgets(client, TEAM)
        found = await client.find_kind(TEAM, "example.com/v1", "Widget")
        assert found is not None
        assert (found.resource, found.kind, found.namespaced, found.api_version) == (WIDGETS, "Widget", True, "example.com/v1")
        assert await client.find_resource(TEAM, WIDGETS.group_resource) == found
        assert await client.find_kind(TEAM, "example.com/v2", "Widget") is None
        assert await client.find_kind(OTHER, "example.com/v1", "Widget") is None
        assert await client.find_resource(OTHER, WIDGETS.group_resource) is None

    async def test_built_in_kinds_are_found(self, client: Client) -> None:
        """Each resource is listed with its scope."""
        found = await client.find_kind(TEAM, "v1", "Namespace")
        assert found is not None
        assert (found.resource, found.namespaced) == (GroupVersionResource("", "v1", "namespaces"), False)
        crds = await client.find_resource(TEAM, CRDS.group_resource)
        assert crds is not None
        assert crds.kind == "CustomResourceDefinition"

    async def test_resources_and_schemas_of_a_cluster(self, client: Client) -> None:
        """Built-in ones and those of CRDs, with the models that they refer to; other clusters have others."""
        await serve_widgets(client, TEAM)
        names = {one.resource: one for one in await client.resources(TEAM)}
        assert (names[WIDGETS].kind, names[WIDGETS].singular) == ("Widget", "widget")
        assert names[CONFIG_MAPS].kind == "ConfigMap"
        assert WIDGETS not in {one.resource for one in await client.resources(OTHER)}
        for kind in (GroupVersionKind("example.com", "v1", "Widget"), GroupVersionKind("", "v1", "ConfigMap")):
            found = await client.schema(TEAM, kind)
            assert found is not None
            metadata = found.document["properties"]["metadata"]
            reference = metadata.get("$ref") or metadata["allOf"][0]["$ref"]
            assert "labels" in found.models[reference.rpartition("/")[2]]["properties"]
            assert await client.schema(TEAM, kind._replace(version="v9")) is None
        assert await client.schema(OTHER, GroupVersionKind("example.com", "v1", "Widget")) is None

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [("app=web", ["one", "two"]), ("app=web,tier!=back", ["one"]), ("tier in (back,x)", ["two"]), ("!app", ["three"])],
    )
    async def test_labels_select(self, client: Client, selector: str, expected: list[str]) -> None:
        """Equality, inequality, sets and absence select objects in one cluster and over all clusters."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one", labels={"app": "web"}))
        await client.create(TEAM, CONFIG_MAPS, config_map("two", labels={"app": "web", "tier": "back"}))
        await client.create(TEAM, CONFIG_MAPS, config_map("three"))
        assert sorted(_names(await client.list(TEAM, CONFIG_MAPS, label_selector=selector))) == sorted(expected)
        assert sorted(_names(await client.list(WILDCARD, CONFIG_MAPS, "default", label_selector=selector))) == sorted(expected)

    async def test_fields_select(self, client: Client) -> None:
        """Objects are selected by name and by a field that a CRD declares; other fields are refused."""
        await serve_widgets(client, TEAM)
        for name, color in (("one", "red"), ("two", "blue")):
            await client.create(TEAM, WIDGETS, widget(name, color=color))
        assert _names(await client.list(TEAM, WIDGETS, field_selector="metadata.name=two")) == ["two"]
        assert _names(await client.list(TEAM, WIDGETS, field_selector="spec.color=red")) == ["one"]
        with pytest.raises(StatusError) as caught:
            await client.list(TEAM, WIDGETS, field_selector="spec.size=1")
        assert caught.value.code == 400

    async def test_a_selector_that_cannot_be_read_is_refused(self, client: Client) -> None:
        """A malformed selector is answered with 400."""
        with pytest.raises(StatusError) as caught:
            await client.list(TEAM, CONFIG_MAPS, label_selector="a in b")
        assert (caught.value.code, caught.value.reason) == (400, "BadRequest")

    async def test_pages_are_one_list(self, client: Client) -> None:
        """All pages have the resourceVersion of the first one, and none contains objects that were created in the meantime."""
        for number in range(5):
            await client.create(TEAM, CONFIG_MAPS, config_map(f"m{number}"))
        first = await client.list(TEAM, CONFIG_MAPS, "default", limit=2)
        assert (_names(first), first.remaining) == (["m0", "m1"], 3)
        await client.create(TEAM, CONFIG_MAPS, config_map("m9"))
        second = await client.list(TEAM, CONFIG_MAPS, "default", limit=2, continue_token=first.continue_token)
        last = await client.list(TEAM, CONFIG_MAPS, "default", limit=2, continue_token=second.continue_token)
        assert (_names(second), _names(last), last.continue_token) == (["m2", "m3"], ["m4"], "")
        assert {page.resource_version for page in (first, second, last)} == {first.resource_version}

    async def test_pages_of_all_clusters(self, client: Client) -> None:
        """A page may end in the middle of a cluster."""
        for cluster in (TEAM, OTHER):
            for name in ("one", "two"):
                await client.create(cluster, CONFIG_MAPS, config_map(name))
        first = await client.list(WILDCARD, CONFIG_MAPS, limit=3)
        rest = await client.list(WILDCARD, CONFIG_MAPS, limit=3, continue_token=first.continue_token)
        assert (len(first.items), _names(rest), rest.continue_token) == (3, ["two"], "")

    async def test_a_token_of_another_list_is_refused(self, client: Client) -> None:
        """A continue token is valid only in its cluster."""
        for name in ("one", "two"):
            await client.create(TEAM, CONFIG_MAPS, config_map(name))
        page = await client.list(TEAM, CONFIG_MAPS, limit=1)
        with pytest.raises(StatusError) as caught:
            await client.list(OTHER, CONFIG_MAPS, limit=1, continue_token=page.continue_token)
        assert caught.value.code == 400

    async def test_a_list_at_an_exact_revision(self, client: Client) -> None:
        """A list at an old resourceVersion contains the objects of that time."""
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await client.create(TEAM, CONFIG_MAPS, config_map("two"))
        version = made["metadata"]["resourceVersion"]
        found = await client.list(TEAM, CONFIG_MAPS, resource_version=version, resource_version_match="Exact")
        assert (_names(found), found.resource_version) == (["one"], version)

    async def test_subresources_are_read(self, client: Client) -> None:
        """The status contains the object, the scale its replicas; a subresource that is not served is not found."""
        await serve_widgets(client, TEAM)
        made = await client.create(TEAM, WIDGETS, widget("one", size=3))
        assert await client.get(TEAM, WIDGETS, "default", "one", subresource="status") == made
        scale = await client.get(TEAM, WIDGETS, "default", "one", subresource="scale")
        assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})
        with pytest.raises(StatusError) as caught:
            await client.get(TEAM, CONFIG_MAPS, "default", "one", subresource="scale")
        assert caught.value.code == 404
