package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	widgetFinalizer = "go.example.com/cleanup"
	colorIndex      = "spec.color"
	farewell        = "farewell"
)

func init() { ctrl.SetLogger(logr.Discard()) }

func widgetScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	made := runtime.NewScheme()
	must(t, scheme.AddToScheme(made))
	addWidgets(made)
	return made
}

// newManager is a manager without servers of its own.
func newManager(t testing.TB, address *rest.Config, options manager.Options) manager.Manager {
	t.Helper()
	options.Scheme = widgetScheme(t)
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	// Tests in one process use a controller's name again.
	options.Controller = config.Controller{SkipNameValidation: ptr.To(true)}
	made, err := manager.New(address, options)
	must(t, err)
	return made
}

// run starts a manager and gives back what stops it and waits for its end.
func run(t testing.TB, ctx context.Context, started manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- started.Start(ctx) }()
	once := sync.Once{}
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("the manager ended with %v", err)
				}
			case <-time.After(patience):
				t.Error("the manager does not stop")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// makeParts gives each widget a config map for each replica, which it owns, and counts them in the widget's status.
type makeParts struct {
	client.Client
	events events.EventRecorder
}

func (r *makeParts) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	one := &Widget{}
	if err := r.Get(ctx, request.NamespacedName, one); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !one.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(one, widgetFinalizer) {
			return ctrl.Result{}, nil
		}
		note := corev1ac.ConfigMap(farewell, one.Namespace).WithData(map[string]string{one.Name: string(one.UID)})
		if err := r.Apply(ctx, note, client.FieldOwner("farewell-"+one.Name), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
		before := one.DeepCopyObject().(*Widget)
		controllerutil.RemoveFinalizer(one, widgetFinalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, one, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	}
	if controllerutil.AddFinalizer(one, widgetFinalizer) {
		// The update comes back as an event.
		return ctrl.Result{}, r.Update(ctx, one)
	}
	wanted := int(ptr.Deref(one.Spec.Replicas, 0))
	for _, name := range numbered(one.Name, wanted) {
		part := corev1ac.ConfigMap(name, one.Namespace).
			WithLabels(map[string]string{"widget": one.Name}).
			WithData(map[string]string{"color": one.Spec.Color}).
			WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(widgetVersion.String()).WithKind("Widget").
				WithName(one.Name).WithUID(one.UID).WithController(true).WithBlockOwnerDeletion(true))
		if err := r.Apply(ctx, part, client.FieldOwner("parts"), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	parts := &corev1.ConfigMapList{}
	if err := r.List(ctx, parts, client.InNamespace(one.Namespace), client.MatchingLabels{"widget": one.Name}); err != nil {
		return ctrl.Result{}, err
	}
	current := 0
	for i := range parts.Items {
		if slices.Contains(numbered(one.Name, wanted), parts.Items[i].Name) {
			current++
		} else if err := r.Delete(ctx, &parts.Items[i]); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	before := one.DeepCopyObject().(*Widget)
	one.Status.Replicas = int32(current)
	one.Status.ObservedGeneration = one.Generation
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Parts", ObservedGeneration: one.Generation}
	if current == wanted {
		ready.Status = metav1.ConditionTrue
	}
	if meta.SetStatusCondition(&one.Status.Conditions, ready) && ready.Status == metav1.ConditionTrue {
		r.events.Eventf(one, nil, corev1.EventTypeNormal, "Ready", "Reconcile", "%d parts", current)
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Status().Patch(ctx, one, client.MergeFrom(before)))
}

// countColors keeps a config map for each color with the names of the widgets that have it, which an index finds.
type countColors struct{ client.Client }

func (r *countColors) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widgets := &WidgetList{}
	color := strings.TrimPrefix(request.Name, "color-")
	if err := r.List(ctx, widgets, client.InNamespace(request.Namespace), client.MatchingFields{colorIndex: color}); err != nil {
		return ctrl.Result{}, err
	}
	var names []string
	for i := range widgets.Items {
		names = append(names, widgets.Items[i].Name)
	}
	slices.Sort(names)
	tally := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, tally, func() error {
		tally.Data = map[string]string{"names": strings.Join(names, " ")}
		return nil
	})
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: often}, nil
	}
	return ctrl.Result{}, err
}

func toColor(_ context.Context, one client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if color := one.(*Widget).Spec.Color; color != "" {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: one.GetNamespace(), Name: "color-" + color}})
	}
	return requests
}

// addControllers makes both controllers, and one that follows metadata alone and sends the names it sees.
func addControllers(t testing.TB, ctx context.Context, added manager.Manager) (seen func() []string) {
	t.Helper()
	must(t, added.GetFieldIndexer().IndexField(ctx, &Widget{}, colorIndex, func(one client.Object) []string {
		return []string{one.(*Widget).Spec.Color}
	}))
	must(t, ctrl.NewControllerManagedBy(added).Named("parts").For(&Widget{}).Owns(&corev1.ConfigMap{}).
		Complete(&makeParts{added.GetClient(), added.GetEventRecorder("parts")}))
	must(t, ctrl.NewControllerManagedBy(added).Named("colors").
		Watches(&Widget{}, handler.EnqueueRequestsFromMapFunc(toColor)).
		Complete(&countColors{added.GetClient()}))
	var mutex sync.Mutex
	var names []string
	must(t, ctrl.NewControllerManagedBy(added).Named("names").For(&corev1.Secret{}, builder.OnlyMetadata).
		Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			one := &metav1.PartialObjectMetadata{}
			one.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			if err := added.GetClient().Get(ctx, request.NamespacedName, one); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			names = append(names, one.Name)
			return ctrl.Result{}, nil
		})))
	return func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(names)
	}
}

// TestManager runs two managers with the same controllers, of which one leads; the other goes on when it stops.
//
// Compatibility: controller-runtime, manager with several controllers: caches, indexes, Owns, server-side apply, finalizers, owner references, status, metadata-only watches, events, leader election
// Feature: WatchListClient
func TestManager(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	config := configFor(t, cluster)
	install(t, ctx, config, widgetDefinition(widgetGroup))
	recorded := recordAll(config)
	direct, err := client.New(configFor(t, cluster), client.Options{Scheme: widgetScheme(t)})
	must(t, err)
	options := manager.Options{
		LeaderElection: true, LeaderElectionID: "widgets", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
		RetryPeriod: ptr.To(200 * time.Millisecond),
	}
	first, second := newManager(t, config, options), newManager(t, config, options)
	seen := addControllers(t, ctx, first)
	addControllers(t, ctx, second)
	stopFirst := run(t, ctx, first)
	receiveClosed(t, ctx, "the first manager leads", first.Elected())
	run(t, ctx, second)

	make := func(name, color string, replicas int32) *Widget {
		one := &Widget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: WidgetSpec{Color: color, Replicas: &replicas}}
		must(t, direct.Create(ctx, one))
		return one
	}
	ready := func(name string, replicas int32) {
		t.Helper()
		eventually(t, ctx, func() string {
			one := &Widget{}
			must(t, direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, one))
			if one.Status.Replicas != replicas || one.Status.ObservedGeneration != one.Generation || conditionStatus(one.Status.Conditions, "Ready") != "True" {
				return fmt.Sprintf("%s has to have %d parts: %+v", name, replicas, one.Status)
			}
			return ""
		})
	}
	parts := func(name string) []string {
		t.Helper()
		found := &corev1.ConfigMapList{}
		must(t, direct.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels{"widget": name}))
		var names []string
		for _, one := range found.Items {
			names = append(names, one.Name)
		}
		return names
	}
	tally := func(color, names string) {
		t.Helper()
		eventually(t, ctx, func() string {
			one := &corev1.ConfigMap{}
			err := direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "color-" + color}, one)
			must(t, client.IgnoreNotFound(err))
			if one.Data["names"] != names {
				return fmt.Sprintf("%q are to be %s: %v", names, color, one.Data)
			}
			return ""
		})
	}

	a, b := make("a", "red", 3), make("b", "red", 1)
	ready("a", 3)
	ready("b", 1)
	sameAll(t, "parts", parts("a"), numbered("a", 3))
	tally("red", "a b")
	must(t, direct.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "seen", Namespace: namespace}}))
	eventually(t, ctx, func() string {
		if !slices.Contains(seen(), "seen") {
			return "the secret's metadata has to be seen"
		}
		return ""
	})
	// A part that is lost is made again, since its owner is told.
	must(t, direct.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-01", Namespace: namespace}}))
	eventually(t, ctx, func() string {
		if !slices.Contains(parts("a"), "a-01") {
			return "a-01 has to come again"
		}
		return ""
	})
	// A part that was changed is changed back.
	must(t, direct.Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-00", Namespace: namespace}},
		client.RawPatch(types.MergePatchType, []byte(`{"data":{"color":"wrong"}}`))))
	eventually(t, ctx, func() string {
		one := &corev1.ConfigMap{}
		must(t, direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "a-00"}, one))
		if one.Data["color"] != "red" {
			return "a-00 has to be red again"
		}
		return ""
	})

	stopFirst()
	receiveClosed(t, ctx, "the second manager leads", second.Elected())
	must(t, direct.Patch(ctx, a, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1,"color":"blue"}}`))))
	eventually(t, ctx, func() string {
		if !slices.Equal(parts("a"), numbered("a", 1)) {
			return "one part has to be left"
		}
		return ""
	})
	ready("a", 1)
	tally("blue", "a")

	must(t, direct.Delete(ctx, b, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	eventually(t, ctx, func() string {
		if err := direct.Get(ctx, client.ObjectKeyFromObject(b), &Widget{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the finalizer has to be taken away: %v", err)
		}
		return ""
	})
	goodbye := &corev1.ConfigMap{}
	must(t, direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: farewell}, goodbye))
	same(t, "farewell", goodbye.Data["b"], string(b.UID))
	eventually(t, ctx, func() string {
		if len(parts("b")) > 0 {
			return "what b owns has to be collected"
		}
		return ""
	})
	must(t, direct.DeleteAllOf(ctx, &Widget{}, client.InNamespace(namespace)))
	eventually(t, ctx, func() string {
		left := &WidgetList{}
		must(t, direct.List(ctx, left))
		if len(left.Items) > 0 || len(parts("a")) > 0 {
			return "nothing is to be left"
		}
		return ""
	})
	told, err := clientset(t, configFor(t, cluster)).EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Ready"})
	must(t, err)
	same(t, "events", len(told.Items) > 0, true)

	for _, one := range recorded.seen(func(exchange) bool { return true }) {
		if one.status >= 400 && one.status != http.StatusNotFound && one.status != http.StatusConflict {
			t.Errorf("%s %s: %d", one.method, one.path, one.status)
		}
	}
}
