package e2e

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// separator stands between cluster and name in the keys of a cache. Neither of them can contain it.
const separator = "|"

// qualify puts the cluster before the name, because an informer keys its objects by namespace and name alone.
func qualify(item runtime.Object) {
	if one, err := meta.Accessor(item); err == nil {
		if cluster := one.GetAnnotations()[clusterOf]; cluster != "" {
			one.SetName(cluster + separator + one.GetName())
		}
	}
}

// qualified reads the same objects with qualified names. It stands between an informer and what the informer reads:
// controller-runtime has cache.Options.NewInformer for it.
func qualified(from cache.ListerWatcher) cache.ListerWatcher {
	source := cache.ToListerWatcherWithContext(from)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := source.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return list, meta.EachListItem(list, func(item runtime.Object) error {
				qualify(item)
				return nil
			})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := source.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(stream, func(in watch.Event) (watch.Event, bool) {
				qualify(in.Object)
				return in, true
			}), nil
		},
	}
}

// ours leaves out what other tests do in clusters of theirs.
func ours(from <-chan change, clusters ...string) <-chan change {
	kept := make(chan change, cap(from))
	go func() {
		for one := range from {
			if slices.Contains(clusters, one.item.GetAnnotations()[clusterOf]) {
				kept <- one
			}
		}
	}()
	return kept
}

// TestWildcardInformers follows all clusters with one informer for each resource, clusters that come later included.
//
// Compatibility: client-go, shared informers (typed, dynamic, metadata) on /clusters/* over all clusters, new ones included
// Feature: WatchListClient
func TestWildcardInformers(t *testing.T) {
	ctx := testContext(t)
	a, b, c := newCluster(t), newCluster(t), newCluster(t)
	group := strings.TrimPrefix(a, "go-") + ".example.com"
	resource := widgetVersion.WithResource("widgets")
	resource.Group = group
	numbers, texts := widgetDefinition(group), widgetDefinition(group)
	spec := func(one string) map[string]any { return map[string]any{one: "1"} }
	properties := numbers.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	delete(properties, "color")
	numbers.Spec.Versions[0].SelectableFields = nil
	properties = texts.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	delete(properties, "replicas")
	install(t, ctx, configFor(t, a), numbers)
	install(t, ctx, configFor(t, b), texts)
	write := func(cluster, name string, spec map[string]any) {
		t.Helper()
		one := widget(name, spec)
		one.SetAPIVersion(group + "/v1")
		_, err := dynamicClient(t, configFor(t, cluster)).Resource(resource).Namespace(namespace).Create(ctx, one, metav1.CreateOptions{})
		must(t, err)
	}
	mapping := func(cluster, name string) {
		t.Helper()
		_, err := clientset(t, configFor(t, cluster)).CoreV1().ConfigMaps(namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	for _, cluster := range []string{a, b} {
		mapping(cluster, "same")
	}
	write(a, "same", map[string]any{"replicas": int64(1)})
	write(b, "same", map[string]any{"color": "red"})

	config := configFor(t, allClusters)
	typed, dynamic := clientset(t, config).CoreV1().ConfigMaps(""), dynamicClient(t, config).Resource(resource)
	partial, err := metadata.NewForConfig(config)
	must(t, err)
	followed := map[string]cache.SharedIndexInformer{
		"configmaps": cache.NewSharedIndexInformer(qualified(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return typed.List(ctx, options)
			},
			WatchFuncWithContext: typed.Watch,
		}), &corev1.ConfigMap{}, 0, nil),
		"widgets": cache.NewSharedIndexInformer(qualified(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return dynamic.List(ctx, options)
			},
			WatchFuncWithContext: dynamic.Watch,
		}), &unstructured.Unstructured{}, 0, nil),
		"metadata of widgets": cache.NewSharedIndexInformer(qualified(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return partial.Resource(resource).List(ctx, options)
			},
			WatchFuncWithContext: partial.Resource(resource).Watch,
		}), &metav1.PartialObjectMetadata{}, 0, nil),
	}
	// An informer as it comes sees everything as well, as long as names differ between clusters.
	plain := informers.NewSharedInformerFactory(clientset(t, config), 0)
	unqualified, _ := handle(t, plain.Core().V1().ConfigMaps().Informer())
	plain.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), plain.Core().V1().ConfigMaps().Informer().HasSynced) {
		t.Fatal("no sync")
	}
	unqualified = ours(unqualified, c)
	changes := map[string]<-chan change{}
	for resource, informer := range followed {
		all, _ := handle(t, informer)
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatalf("%s did not sync", resource)
		}
		changes[resource] = ours(all, a, b, c)
		first := []string{receive(t, ctx, "initial", changes[resource]).String(), receive(t, ctx, "initial", changes[resource]).String()}
		slices.Sort(first)
		wanted := []string{fmt.Sprintf("initial %s default/%s|same", a, a), fmt.Sprintf("initial %s default/%s|same", b, b)}
		slices.Sort(wanted)
		sameAll(t, resource, first, wanted)
	}
	one, _, err := followed["widgets"].GetStore().GetByKey("default/" + b + "|same")
	must(t, err)
	same(t, "of its own schema", field(t, one.(*unstructured.Unstructured), "spec", "color"), any("red"))

	client := dynamicClient(t, configFor(t, a)).Resource(resource).Namespace(namespace)
	_, err = client.Patch(ctx, "same", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	must(t, err)
	install(t, ctx, configFor(t, c), texts)
	write(c, "late", spec("color"))
	must(t, client.Delete(ctx, "same", metav1.DeleteOptions{}))
	mapping(c, "late")
	must(t, clientset(t, configFor(t, a)).CoreV1().ConfigMaps(namespace).Delete(ctx, "same", metav1.DeleteOptions{}))
	for _, name := range []string{"widgets", "metadata of widgets"} {
		told(t, ctx, changes[name], fmt.Sprintf("update %s default/%s|same", a, a), fmt.Sprintf("add %s default/%s|late", c, c),
			fmt.Sprintf("delete %s default/%s|same", a, a))
	}
	told(t, ctx, changes["configmaps"], fmt.Sprintf("add %s default/%s|late", c, c), fmt.Sprintf("delete %s default/%s|same", a, a))
	told(t, ctx, unqualified, fmt.Sprintf("add %s default/late", c))
	for resource, informer := range followed {
		keys := slices.DeleteFunc(informer.GetStore().ListKeys(), func(key string) bool {
			cluster, _, _ := strings.Cut(path.Base(key), separator)
			return !slices.Contains([]string{a, b, c}, cluster)
		})
		slices.Sort(keys)
		wanted := []string{"default/" + b + "|same", "default/" + c + "|late"}
		slices.Sort(wanted)
		sameAll(t, resource, keys, wanted)
	}

	deleteCluster(t, b)
	for resource := range followed {
		told(t, ctx, changes[resource], fmt.Sprintf("delete %s default/%s|same", b, b))
	}
}

// copyColors writes a config map for each widget, in the cluster of the widget.
type copyColors struct {
	client.Client
	base    *rest.Config
	mutex   sync.Mutex
	writers map[string]client.Client
}

func (r *copyColors) writer(cluster string) (client.Client, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if made, ok := r.writers[cluster]; ok {
		return made, nil
	}
	config := rest.CopyConfig(r.base)
	config.Host = strings.TrimSuffix(config.Host, allClusters) + cluster
	made, err := client.New(config, client.Options{Scheme: r.Scheme()})
	if err == nil {
		r.writers[cluster] = made
	}
	return made, err
}

func (r *copyColors) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster, name, _ := strings.Cut(request.Name, separator)
	writer, err := r.writer(cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	one := &Widget{}
	if err := r.Get(ctx, request.NamespacedName, one); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	copied := corev1ac.ConfigMap("copy-of-"+name, request.Namespace).WithData(map[string]string{"color": one.Spec.Color})
	return ctrl.Result{}, writer.Apply(ctx, copied, client.FieldOwner("copy"), client.ForceOwnership)
}

// TestWildcardManager runs one controller for all clusters: one watch, a cache with the objects of each, and writes to where they are from.
//
// Compatibility: controller-runtime, manager on /clusters/* with a controller for all clusters, new ones included
// Feature: WatchListClient
func TestWildcardManager(t *testing.T) {
	ctx := testContext(t)
	clusters := []string{newCluster(t), newCluster(t), newCluster(t)}
	early := clusters[:2]
	for _, cluster := range early {
		install(t, ctx, configFor(t, cluster), widgetDefinition(widgetGroup))
	}
	direct := map[string]client.Client{}
	write := func(cluster, name, color string) {
		t.Helper()
		if direct[cluster] == nil {
			made, err := client.New(configFor(t, cluster), client.Options{Scheme: widgetScheme(t)})
			must(t, err)
			direct[cluster] = made
		}
		must(t, direct[cluster].Create(ctx, &Widget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: WidgetSpec{Color: color}}))
	}
	copied := func(cluster, name, color string) {
		t.Helper()
		eventually(t, ctx, func() string {
			one := &corev1.ConfigMap{}
			err := direct[cluster].Get(ctx, client.ObjectKey{Namespace: namespace, Name: "copy-of-" + name}, one)
			must(t, client.IgnoreNotFound(err))
			if one.Data["color"] != color {
				return fmt.Sprintf("%s of %s has to be copied as %s: %v", name, cluster, color, one.Data)
			}
			return ""
		})
	}
	for _, cluster := range early {
		write(cluster, "same", "of-"+cluster)
	}
	config := configFor(t, allClusters)
	runs := newManager(t, config, manager.Options{Cache: ctrlcache.Options{
		NewInformer: func(from cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(qualified(from), example, resync, indexers)
		},
	}})
	must(t, ctrl.NewControllerManagedBy(runs).Named("copy").For(&Widget{}).Complete(
		reconcile.Reconciler(&copyColors{Client: runs.GetClient(), base: config, writers: map[string]client.Client{}})))
	stop := run(t, ctx, runs)
	for _, cluster := range early {
		copied(cluster, "same", "of-"+cluster)
	}
	late := clusters[2]
	install(t, ctx, configFor(t, late), widgetDefinition(widgetGroup))
	write(late, "same", "of-"+late)
	write(early[0], "another", "green")
	copied(late, "same", "of-"+late)
	copied(early[0], "another", "green")
	stop()
}
