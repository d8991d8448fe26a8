package e2e

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestControllerRuntimeClient uses controller-runtime's client without a cache: typed, unstructured and by metadata alone.
//
// Compatibility: controller-runtime, client without cache: typed, unstructured and metadata objects, patches, apply, subresources, watch, dry run, field validation
func TestControllerRuntimeClient(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	install(t, ctx, config, widgetDefinition(widgetGroup))
	direct, err := client.NewWithWatch(config, client.Options{Scheme: widgetScheme(t)})
	must(t, err)
	events, err := direct.Watch(ctx, &WidgetList{}, client.InNamespace(namespace), client.MatchingFields{"spec.color": "red"})
	must(t, err)
	defer events.Stop()
	next := func(kind watch.EventType) *Widget {
		t.Helper()
		event := receive(t, ctx, string(kind), events.ResultChan())
		same(t, "event", event.Type, kind)
		return event.Object.(*Widget)
	}

	one := &Widget{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace}, Spec: WidgetSpec{Color: "red", Replicas: ptr.To[int32](1)}}
	must(t, client.NewDryRunClient(direct).Create(ctx, one.DeepCopyObject().(*Widget)))
	expect(t, apierrors.IsNotFound, direct.Get(ctx, client.ObjectKeyFromObject(one), &Widget{}))
	must(t, direct.Create(ctx, one))
	same(t, "uid", next(watch.Added).UID, one.UID)
	expect(t, apierrors.IsAlreadyExists, direct.Create(ctx, &Widget{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace}}))

	before := one.DeepCopyObject().(*Widget)
	one.Labels = map[string]string{"a": "b"}
	must(t, direct.Patch(ctx, one, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	same(t, "label", next(watch.Modified).Labels["a"], "b")
	stale := before.DeepCopyObject().(*Widget)
	stale.Labels = map[string]string{"a": "c"}
	expect(t, apierrors.IsConflict, direct.Patch(ctx, stale, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	one.Status.Replicas = 1
	must(t, direct.Status().Update(ctx, one))
	same(t, "status", next(watch.Modified).Status.Replicas, 1)
	form := &autoscalingv1.Scale{}
	must(t, direct.SubResource("scale").Get(ctx, one, form))
	same(t, "replicas", form.Spec.Replicas, 1)
	form.Spec.Replicas = 2
	must(t, direct.SubResource("scale").Update(ctx, one, client.WithSubResourceBody(form)))
	same(t, "replicas", *next(watch.Modified).Spec.Replicas, 2)

	loose := &unstructured.Unstructured{}
	loose.SetGroupVersionKind(widgetKind)
	must(t, direct.Get(ctx, client.ObjectKeyFromObject(one), loose))
	same(t, "unstructured", field(t, loose, "spec", "replicas"), any(int64(2)))
	configuration := widget("one", map[string]any{"color": "blue"})
	expect(t, apierrors.IsConflict, direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration), client.FieldOwner("painter")))
	must(t, direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration), client.FieldOwner("painter"), client.ForceOwnership))
	// An object that leaves a selection is delivered in its previous form.
	same(t, "no longer red", next(watch.Deleted).Spec.Color, "red")
	strict := client.WithFieldValidation(direct, metav1.FieldValidationStrict)
	unknown := widget("two", map[string]any{"strange": int64(1)})
	expect(t, apierrors.IsBadRequest, strict.Create(ctx, unknown))

	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(widgetKind)
	must(t, direct.Get(ctx, client.ObjectKeyFromObject(one), partial))
	same(t, "uid", partial.UID, one.UID)
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(widgetVersion.WithKind("WidgetList"))
	must(t, direct.List(ctx, list, client.MatchingLabels{"a": "b"}))
	same(t, "by label", len(list.Items), 1)
	must(t, direct.Delete(ctx, partial, client.Preconditions{UID: &one.UID}))
	expect(t, apierrors.IsNotFound, direct.Get(ctx, client.ObjectKeyFromObject(one), one))

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}, Secrets: []corev1.ObjectReference{{Name: "a"}, {Name: "b"}}}
	namespaced := client.NewNamespacedClient(direct, namespace)
	must(t, namespaced.Create(ctx, account))
	merged := account.DeepCopy()
	merged.Secrets = []corev1.ObjectReference{{Name: "b"}, {Name: "c"}}
	must(t, namespaced.Patch(ctx, merged, client.StrategicMergeFrom(account)))
	var names []string
	for _, secret := range merged.Secrets {
		names = append(names, secret.Name)
	}
	sameAll(t, "merged by name", names, []string{"b", "c"})
	must(t, namespaced.DeleteAllOf(ctx, &corev1.ServiceAccount{}))
	accounts := &corev1.ServiceAccountList{}
	must(t, namespaced.List(ctx, accounts, client.Limit(10)))
	// The account that every namespace has comes back at once.
	same(t, "left", len(accounts.Items), 1)
	same(t, "the one that is left", accounts.Items[0].Name, "default")
}
