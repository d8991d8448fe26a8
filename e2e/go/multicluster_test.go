package e2e

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	"sigs.k8s.io/multicluster-runtime/pkg/clusters"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

var logicalClusters = schema.GroupVersionResource{Group: "core.kcp.io", Version: "v1alpha1", Resource: "logicalclusters"}

// wildcardProvider gives a manager of multicluster-runtime every logical cluster with a label: it watches the LogicalClusters of all
// clusters, and engages and disengages each one as it comes and goes.
type wildcardProvider struct {
	clusters.Clusters[cluster.Cluster]
	watched  func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	address  func(name string) *rest.Config
	selector string
}

// Start follows the clusters until the end of ctx.
func (p *wildcardProvider) Start(ctx context.Context, aware multicluster.Aware) error {
	events, err := p.watched(ctx, metav1.ListOptions{LabelSelector: p.selector})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			item, isObject := event.Object.(*unstructured.Unstructured)
			if !isObject {
				continue
			}
			name := item.GetAnnotations()[clusterOf]
			if event.Type == watch.Deleted || item.GetDeletionTimestamp() != nil {
				p.Remove(name)
				continue
			}
			if _, err := p.Get(ctx, name); err == nil {
				continue
			}
			made, err := cluster.New(p.address(name), func(options *cluster.Options) { options.Scheme = scheme.Scheme })
			if err != nil {
				return err
			}
			if err := p.Add(ctx, name, made, aware); err != nil {
				return err
			}
		}
	}
}

// TestMulticlusterRuntime runs one manager for all logical clusters with a label: each has the reconciler, caches and indexes of its own, clusters
// that come later included, and one that is deleted is left alone.
//
// Compatibility: multicluster-runtime, manager, builder and provider over a wildcard watch of logical clusters: reconcilers, caches and indexes of each cluster
func TestMulticlusterRuntime(t *testing.T) {
	ctx := testContext(t)
	mark := newCluster(t)
	everything := dynamicClient(t, configFor(t, allClusters)).Resource(logicalClusters)
	provider := &wildcardProvider{
		Clusters: clusters.New[cluster.Cluster](),
		watched:  everything.Watch,
		address:  func(name string) *rest.Config { return configFor(t, name) },
		selector: "example.com/test=" + mark,
	}
	declare := func(name string) {
		t.Helper()
		labels := `{"apiVersion":"core.kcp.io/v1alpha1","kind":"LogicalCluster","metadata":{"name":"cluster","labels":{"example.com/test":"` + mark + `"}}}`
		request := clientset(t, configFor(t, name)).RESTClient().Patch("application/apply-patch+yaml").
			AbsPath("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").Param("fieldManager", "test").Body([]byte(labels))
		must(t, request.Do(ctx).Error())
	}
	settings := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string]string{"value": value}}
	}
	first, second, late := newCluster(t), newCluster(t), newCluster(t)
	for _, name := range []string{first, second} {
		declare(name)
		_, err := clientset(t, configFor(t, name)).CoreV1().ConfigMaps(namespace).Create(ctx, settings("same", name), metav1.CreateOptions{})
		must(t, err)
	}
	manager, err := mcmanager.New(configFor(t, mark), provider, mcmanager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	must(t, manager.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "value", func(one client.Object) []string {
		return []string{one.(*corev1.ConfigMap).Data["value"]}
	}))
	var lock sync.Mutex
	found := map[string]int{}
	reconciler := mcreconcile.Func(func(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
		if request.Name != "same" {
			return ctrl.Result{}, nil
		}
		one, err := manager.GetCluster(ctx, request.ClusterName)
		if err != nil {
			return ctrl.Result{}, err
		}
		list := &corev1.ConfigMapList{}
		if err := one.GetClient().List(ctx, list, client.MatchingFields{"value": request.ClusterName}); err != nil {
			return ctrl.Result{}, err
		}
		lock.Lock()
		found[request.ClusterName] = len(list.Items)
		lock.Unlock()
		err = one.GetClient().Create(ctx, settings("seen", request.ClusterName+" was seen"))
		return ctrl.Result{}, client.IgnoreAlreadyExists(err)
	})
	must(t, mcbuilder.ControllerManagedBy(manager).Named(mark).For(&corev1.ConfigMap{}).Complete(reconciler))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()

	written := func(name string) {
		t.Helper()
		eventually(t, ctx, func() string {
			one, err := clientset(t, configFor(t, name)).CoreV1().ConfigMaps(namespace).Get(ctx, "seen", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			same(t, "what was written", one.Data["value"], name+" was seen")
			return ""
		})
	}
	written(first)
	written(second)
	// A cluster that comes later.
	_, err = clientset(t, configFor(t, late)).CoreV1().ConfigMaps(namespace).Create(ctx, settings("same", late), metav1.CreateOptions{})
	must(t, err)
	declare(late)
	written(late)
	lock.Lock()
	for _, name := range []string{first, second, late} {
		same(t, "objects of the index in "+name, found[name], 1)
	}
	same(t, "clusters", len(found), 3)
	lock.Unlock()
	// The cluster of the manager has no label, so the provider does not engage it.
	_, err = clientset(t, configFor(t, mark)).CoreV1().ConfigMaps(namespace).Get(ctx, "seen", metav1.GetOptions{})
	expect(t, apierrors.IsNotFound, err)
	deleteCluster(t, late)
	eventually(t, ctx, func() string {
		if _, err := manager.GetCluster(ctx, late); err == nil {
			return "the deleted cluster is still there"
		}
		return ""
	})
	stop()
	must(t, <-ended)
}
