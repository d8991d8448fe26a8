package e2e

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"
)

// TestDynamic takes built-in and custom resources through their life with the dynamic client.
//
// Compatibility: client-go, dynamic client: create, get, list, update, status, every patch, apply, watch, delete, deletecollection; JSON where it would rather have CBOR
// Feature: ClientsPreferCBOR
func TestDynamic(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	install(t, ctx, config, widgetDefinition(widgetGroup))
	client := dynamicClient(t, config)
	widgets := client.Resource(widgetResource).Namespace(namespace)

	empty, err := widgets.List(ctx, metav1.ListOptions{})
	must(t, err)
	events, err := widgets.Watch(ctx, metav1.ListOptions{ResourceVersion: empty.GetResourceVersion()})
	must(t, err)
	defer events.Stop()
	next := func(kind watch.EventType) *unstructured.Unstructured {
		t.Helper()
		event := receive(t, ctx, string(kind), events.ResultChan())
		same(t, "event", event.Type, kind)
		return event.Object.(*unstructured.Unstructured)
	}

	wanted := widget("one", map[string]any{"replicas": int64(1), "unknown": true})
	if features.FeatureGates().Enabled(features.ClientsPreferCBOR) {
		// client-go tells its caller once, and writes JSON from then on.
		_, err := widgets.Create(ctx, wanted, metav1.CreateOptions{})
		expect(t, apierrors.IsUnsupportedMediaType, err)
	}
	created, err := widgets.Create(ctx, wanted, metav1.CreateOptions{})
	must(t, err)
	same(t, "default", field(t, created, "spec", "color"), any("grey"))
	same(t, "pruned", field(t, created, "spec", "unknown"), nil)
	same(t, "generation", created.GetGeneration(), 1)
	same(t, "added", next(watch.Added).GetResourceVersion(), created.GetResourceVersion())

	must(t, unstructured.SetNestedField(created.Object, "red", "spec", "color"))
	must(t, unstructured.SetNestedField(created.Object, int64(7), "status", "replicas"))
	updated, err := widgets.Update(ctx, created, metav1.UpdateOptions{})
	must(t, err)
	same(t, "status after an ordinary update", field(t, updated, "status", "replicas"), nil)
	same(t, "generation", updated.GetGeneration(), 2)
	next(watch.Modified)
	must(t, unstructured.SetNestedField(updated.Object, int64(7), "status", "replicas"))
	updated, err = widgets.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	must(t, err)
	same(t, "status", field(t, updated, "status", "replicas"), any(int64(7)))
	same(t, "generation", updated.GetGeneration(), 2)
	next(watch.Modified)

	patched, err := widgets.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"color":null,"replicas":3}}`), metav1.PatchOptions{})
	must(t, err)
	same(t, "defaulted again", field(t, patched, "spec", "color"), any("grey"))
	_, err = widgets.Patch(ctx, "one", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":4}]`), metav1.PatchOptions{})
	expect(t, apierrors.IsInvalid, err)
	_, err = widgets.Patch(ctx, "one", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	expect(t, apierrors.IsUnsupportedMediaType, err)
	_, err = widgets.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"replicas":-1}}`), metav1.PatchOptions{})
	expect(t, apierrors.IsInvalid, err)
	next(watch.Modified)

	if features.FeatureGates().Enabled(features.ClientsPreferCBOR) {
		// From applying in CBOR it has no way back.
		_, err = widgets.Apply(ctx, "one", widget("one", nil), metav1.ApplyOptions{FieldManager: "applier", Force: true})
		expect(t, apierrors.IsUnsupportedMediaType, err)
		return
	}
	applied, err := widgets.Apply(ctx, "one", widget("one", map[string]any{"replicas": int64(5)}), metav1.ApplyOptions{FieldManager: "applier", Force: true})
	must(t, err)
	same(t, "applied", field(t, applied, "spec", "replicas"), any(int64(5)))
	next(watch.Modified)
	state := widget("one", nil)
	must(t, unstructured.SetNestedSlice(state.Object, []any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions"))
	unstructured.RemoveNestedField(state.Object, "spec")
	applied, err = widgets.ApplyStatus(ctx, "one", state, metav1.ApplyOptions{FieldManager: "applier"})
	must(t, err)
	same(t, "status of another", field(t, applied, "status", "replicas"), any(int64(7)))
	next(watch.Modified)

	selected, err := widgets.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=grey"})
	must(t, err)
	same(t, "grey ones", len(selected.Items), 1)
	must(t, widgets.Delete(ctx, "one", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	for event := (watch.Event{}); event.Type != watch.Deleted; {
		event = receive(t, ctx, "deletion", events.ResultChan())
	}

	configmaps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	for _, name := range numbered("map", 3) {
		made := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"of": name}}}
		made.SetAPIVersion("v1")
		made.SetKind("ConfigMap")
		made.SetName(name)
		_, err = configmaps.Namespace(namespace).Create(ctx, made, metav1.CreateOptions{})
		must(t, err)
	}
	must(t, configmaps.Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name!=map-01"}))
	everywhere, err := configmaps.List(ctx, metav1.ListOptions{})
	must(t, err)
	same(t, "left", len(everywhere.Items), 1)
	same(t, "left", field(t, &everywhere.Items[0], "data", "of"), any("map-01"))
}

// TestMetadata reads, follows, patches and deletes objects by their metadata alone.
//
// Compatibility: client-go, metadata client for built-in kinds and custom resources: get, list, watch, patch, delete, deletecollection
func TestMetadata(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	install(t, ctx, config, widgetDefinition(widgetGroup))
	dynamic := dynamicClient(t, config)
	config = metadata.ConfigFor(config)
	recorded := recordAll(config)
	client, err := metadata.NewForConfig(config)
	must(t, err)
	for _, kind := range []struct {
		name    string
		exists  *unstructured.Unstructured
		builtin bool
	}{
		{"widgets", widget("one", map[string]any{"replicas": int64(1)}), false},
		{"configmaps", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one"}, "data": map[string]any{"a": "b"},
		}}, true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			version := kind.exists.GroupVersionKind().GroupVersion()
			all := client.Resource(version.WithResource(kind.name))
			some := all.Namespace(namespace)
			empty, err := some.List(ctx, metav1.ListOptions{})
			must(t, err)
			events, err := some.Watch(ctx, metav1.ListOptions{ResourceVersion: empty.ResourceVersion})
			must(t, err)
			defer events.Stop()
			writer := dynamic.Resource(version.WithResource(kind.name)).Namespace(namespace)
			full, err := writer.Create(ctx, kind.exists, metav1.CreateOptions{})
			must(t, err)

			got, err := some.Get(ctx, "one", metav1.GetOptions{})
			must(t, err)
			same(t, "uid", got.UID, full.GetUID())
			same(t, "managers", len(got.ManagedFields), 1)
			added := receive(t, ctx, "added", events.ResultChan())
			same(t, "added", added.Type, watch.Added)
			same(t, "version", added.Object.(*metav1.PartialObjectMetadata).ResourceVersion, full.GetResourceVersion())

			patched, err := some.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{})
			must(t, err)
			sameAll(t, "finalizers", patched.Finalizers, []string{"example.com/hold"})
			same(t, "modified", receive(t, ctx, "modified", events.ResultChan()).Object.(*metav1.PartialObjectMetadata).Labels["a"], "b")
			list, err := all.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
			must(t, err)
			same(t, "listed", len(list.Items), 1)
			same(t, "listed", list.Items[0].UID, full.GetUID())

			must(t, some.Delete(ctx, "one", metav1.DeleteOptions{}))
			held := receive(t, ctx, "held", events.ResultChan()).Object.(*metav1.PartialObjectMetadata)
			if held.DeletionTimestamp.IsZero() {
				t.Fatal("a finalizer holds the object, which has to be marked")
			}
			_, err = some.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			must(t, err)
			same(t, "deleted", receive(t, ctx, "deleted", events.ResultChan()).Type, watch.Deleted)
			_, err = some.Get(ctx, "one", metav1.GetOptions{})
			expect(t, apierrors.IsNotFound, err)
			_, err = writer.Create(ctx, kind.exists, metav1.CreateOptions{})
			must(t, err)
			must(t, some.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
			left, err := all.List(ctx, metav1.ListOptions{})
			must(t, err)
			same(t, "left", slices.ContainsFunc(left.Items, func(one metav1.PartialObjectMetadata) bool { return one.Name == "one" }), false)
		})
	}
	for _, one := range recorded.seen(func(one exchange) bool { return one.status == 200 }) {
		if !strings.Contains(one.path, "/widgets") && !strings.HasPrefix(one.answered, protobuf) {
			t.Fatalf("%s %s %v was answered in %s", one.method, one.path, one.query, one.answered)
		}
	}
}

// TestLargeLists reads a list in pages, in one piece, and as it was at an earlier version.
//
// Compatibility: client-go, pager over chunked lists; lists at an exact and at a not older version
func TestLargeLists(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	client := clientset(t, config).CoreV1().ConfigMaps(namespace)
	names := numbered("map", 25)
	for _, name := range names {
		_, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	first, err := client.List(ctx, metav1.ListOptions{Limit: 10})
	must(t, err)
	same(t, "remaining", *first.RemainingItemCount, 15)
	_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "map-later"}}, metav1.CreateOptions{})
	must(t, err)
	second, err := client.List(ctx, metav1.ListOptions{Limit: 100, Continue: first.Continue})
	must(t, err)
	same(t, "second page", len(second.Items), 15)
	same(t, "version of the second page", second.ResourceVersion, first.ResourceVersion)
	exact, err := client.List(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	must(t, err)
	same(t, "exact", len(exact.Items), 25)
	fresh, err := client.List(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	must(t, err)
	same(t, "not older", len(fresh.Items), 26)
	var seen []string
	paged := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	})
	paged.PageSize = 10
	must(t, paged.EachListItem(ctx, metav1.ListOptions{}, func(one runtime.Object) error {
		seen = append(seen, one.(*corev1.ConfigMap).Name)
		return nil
	}))
	sameAll(t, "all pages", seen, append(names, "map-later"))
	_, err = client.List(ctx, metav1.ListOptions{Limit: 10, Continue: "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"})
	expect(t, apierrors.IsBadRequest, err)
}

// TestLargeObjects moves objects that come in many pieces, compressed where the client offers it, in lists and in watches.
//
// Compatibility: client-go, objects of half a megabyte in JSON and protobuf: lists, watches, compressed answers; watches that time out
func TestLargeObjects(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			ctx := testContext(t)
			config := configFor(t, newCluster(t))
			encoding.set(config)
			client := clientset(t, config).CoreV1().ConfigMaps(namespace)
			content := make([]byte, 500_000)
			for i := range content {
				content[i] = byte(i * i >> 7)
			}
			events, err := client.Watch(ctx, metav1.ListOptions{})
			must(t, err)
			defer events.Stop()
			for _, name := range numbered("large", 3) {
				made, err := client.Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{"content": content},
				}, metav1.CreateOptions{})
				must(t, err)
				event := receive(t, ctx, name, events.ResultChan())
				same(t, "event", event.Type, watch.Added)
				found := event.Object.(*corev1.ConfigMap)
				same(t, "version", found.ResourceVersion, made.ResourceVersion)
				same(t, "content", bytes.Equal(found.BinaryData["content"], content), true)
			}
			for _, uncompressed := range []bool{false, true} {
				config := rest.CopyConfig(config)
				config.DisableCompression = uncompressed
				list, err := clientset(t, config).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
				must(t, err)
				same(t, "listed", len(list.Items), 3)
				for _, one := range list.Items {
					same(t, "content", bytes.Equal(one.BinaryData["content"], content), true)
				}
			}
			short, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "metadata.name=none", TimeoutSeconds: ptr.To[int64](1)})
			must(t, err)
			for event := range short.ResultChan() {
				t.Errorf("a watch that times out ended with %v", event)
			}
		})
	}
}

// TestCustomResourcesAreNoProtobuf asks for custom resources in protobuf: they have no such form, and clients that accept nothing else are refused.
//
// Compatibility: client-go, custom resources asked for in protobuf: JSON where it is accepted as well, else 406 and 415
func TestCustomResourcesAreNoProtobuf(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	install(t, ctx, config, widgetDefinition(widgetGroup))
	recorded := recordAll(config)
	client := clientset(t, config).RESTClient()
	widgets := "/apis/" + widgetVersion.String() + "/namespaces/default/widgets"
	text, err := client.Get().AbsPath(widgets).SetHeader("Accept", protobuf+",application/json").Do(ctx).Raw()
	must(t, err)
	list := &unstructured.UnstructuredList{}
	must(t, list.UnmarshalJSON(text))
	same(t, "kind", list.GetKind(), "WidgetList")
	err = client.Get().AbsPath(widgets).SetHeader("Accept", protobuf).Do(ctx).Error()
	expect(t, apierrors.IsNotAcceptable, err)
	err = client.Post().AbsPath(widgets).SetHeader("Content-Type", protobuf).Body([]byte("k8s\x00")).Do(ctx).Error()
	expect(t, apierrors.IsUnsupportedMediaType, err)
	// Their metadata has that form.
	accept := protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	must(t, client.Get().AbsPath(widgets).SetHeader("Accept", accept).Do(ctx).Error())
	answers := recorded.seen(func(one exchange) bool { return one.status == http.StatusOK })
	same(t, "metadata", strings.HasPrefix(answers[len(answers)-1].answered, protobuf), true)
}
