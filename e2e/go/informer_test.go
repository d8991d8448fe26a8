package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// change is what a handler of an informer was told.
type change struct {
	kind string
	item metav1.Object
}

func (c change) String() string {
	return fmt.Sprintf("%s %s %s/%s", c.kind, c.item.GetAnnotations()[clusterOf], c.item.GetNamespace(), c.item.GetName())
}

// handle sends what an informer tells; objects that the informer knew at first are told as "initial".
func handle(t testing.TB, informer cache.SharedIndexInformer) (<-chan change, cache.ResourceEventHandlerRegistration) {
	t.Helper()
	changes := make(chan change, 1000)
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(item any, initial bool) {
			kind := "add"
			if initial {
				kind = "initial"
			}
			changes <- change{kind, item.(metav1.Object)}
		},
		UpdateFunc: func(_, item any) { changes <- change{"update", item.(metav1.Object)} },
		DeleteFunc: func(item any) {
			if gone, ok := item.(cache.DeletedFinalStateUnknown); ok {
				changes <- change{"missed delete", gone.Obj.(metav1.Object)}
				return
			}
			changes <- change{"delete", item.(metav1.Object)}
		},
	})
	must(t, err)
	return changes, registration
}

// told wants these changes, in this order.
func told(t testing.TB, ctx context.Context, changes <-chan change, wanted ...string) {
	t.Helper()
	for _, each := range wanted {
		same(t, "change", receive(t, ctx, each, changes).String(), each)
	}
}

// TestInformers follows built-in kinds and custom resources with the shared informers of all three kinds of clients.
//
// Compatibility: client-go, shared informers (typed, dynamic, metadata) with and without WatchList
// Feature: WatchListClient
func TestInformers(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	config := configFor(t, cluster)
	install(t, ctx, config, widgetDefinition(widgetGroup))
	recorded := recordAll(config)
	client := clientset(t, config)
	dynamic := dynamicClient(t, config)
	partial, err := metadata.NewForConfig(config)
	must(t, err)
	maps := client.CoreV1().ConfigMaps(namespace)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, metav1.CreateOptions{})
	must(t, err)
	widgets := dynamic.Resource(widgetResource).Namespace(namespace)
	_, err = widgets.Create(ctx, widget("early", nil), metav1.CreateOptions{})
	must(t, err)

	typed := informers.NewSharedInformerFactory(client, 0)
	dynamics := dynamicinformer.NewDynamicSharedInformerFactory(dynamic, 0)
	partials := metadatainformer.NewSharedInformerFactory(partial, 0)
	followed := map[string]cache.SharedIndexInformer{
		"typed configmaps":      typed.Core().V1().ConfigMaps().Informer(),
		"dynamic configmaps":    dynamics.ForResource(configMaps).Informer(),
		"metadata of configmap": partials.ForResource(configMaps).Informer(),
		"dynamic widgets":       dynamics.ForResource(widgetResource).Informer(),
		"metadata of widgets":   partials.ForResource(widgetResource).Informer(),
	}
	changes := map[string]<-chan change{}
	for name, informer := range followed {
		must(t, informer.AddIndexers(cache.Indexers{"by label": func(item any) ([]string, error) {
			return []string{item.(metav1.Object).GetLabels()["e2e"]}, nil
		}}))
		told, registration := handle(t, informer)
		changes[name] = told
		defer func() { must(t, informer.RemoveEventHandler(registration)) }()
	}
	lister := typed.Core().V1().ConfigMaps().Lister()
	running, stop := context.WithCancel(ctx)
	defer stop()
	typed.Start(running.Done())
	dynamics.Start(running.Done())
	partials.Start(running.Done())
	for name, informer := range followed {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatalf("%s did not sync", name)
		}
		told(t, ctx, changes[name], "initial "+cluster+" default/early")
	}

	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = widgets.Create(ctx, widget("late", nil), metav1.CreateOptions{})
	must(t, err)
	label := []byte(`{"metadata":{"labels":{"e2e":"late"}}}`)
	_, err = maps.Patch(ctx, "late", types.MergePatchType, label, metav1.PatchOptions{})
	must(t, err)
	_, err = widgets.Patch(ctx, "late", types.MergePatchType, label, metav1.PatchOptions{})
	must(t, err)
	must(t, maps.Delete(ctx, "early", metav1.DeleteOptions{}))
	must(t, widgets.Delete(ctx, "early", metav1.DeleteOptions{}))
	for name, informer := range followed {
		told(t, ctx, changes[name], "add "+cluster+" default/late", "update "+cluster+" default/late", "delete "+cluster+" default/early")
		sameAll(t, name+" in store", informer.GetStore().ListKeys(), []string{"default/late"})
		indexed, err := informer.GetIndexer().IndexKeys("by label", "late")
		must(t, err)
		sameAll(t, name+" in index", indexed, []string{"default/late"})
	}
	listed, err := lister.ConfigMaps(namespace).List(labels.SelectorFromSet(labels.Set{"e2e": "late"}))
	must(t, err)
	same(t, "by the lister", len(listed), 1)
	_, err = lister.ConfigMaps(namespace).Get("early")
	expect(t, apierrors.IsNotFound, err)

	stop()
	typed.Shutdown()
	dynamics.Shutdown()
	partials.Shutdown()
	lists := len(recorded.seen(func(one exchange) bool { return one.method == http.MethodGet && !isWatch(one) }))
	streams := len(recorded.seen(isWatchList))
	if features.FeatureGates().Enabled(features.WatchListClient) {
		same(t, "lists", lists, 0)
		same(t, "streamed lists", streams, len(followed))
	} else {
		same(t, "lists", lists, len(followed))
		same(t, "streamed lists", streams, 0)
	}
}

// breaking is a body that can be ended from outside, as a lost connection ends it.
type breaking struct {
	io.ReadCloser
	broken chan struct{}
	once   sync.Once
}

func (b *breaking) Read(into []byte) (int, error) {
	type result struct {
		count int
		err   error
	}
	done := make(chan result, 1)
	buffer := make([]byte, len(into))
	go func() {
		count, err := b.ReadCloser.Read(buffer)
		done <- result{count, err}
	}()
	select {
	case <-b.broken:
		return 0, io.ErrUnexpectedEOF
	case read := <-done:
		return copy(into, buffer[:read.count]), read.err
	}
}

// cutter can break all running watches, and refuse requests while it is down.
type cutter struct {
	mutex   sync.Mutex
	down    bool
	running []*breaking
	next    http.RoundTripper
}

func (c *cutter) RoundTrip(request *http.Request) (*http.Response, error) {
	c.mutex.Lock()
	down := c.down
	c.mutex.Unlock()
	if down {
		return nil, syscall.ECONNREFUSED
	}
	response, err := c.next.RoundTrip(request)
	if err == nil && isWatchRequest(request) {
		body := &breaking{ReadCloser: response.Body, broken: make(chan struct{})}
		response.Body = body
		c.mutex.Lock()
		c.running = append(c.running, body)
		c.mutex.Unlock()
	}
	return response, err
}

func (c *cutter) set(down bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.down = down
	if down {
		for _, body := range c.running {
			body.once.Do(func() { close(body.broken) })
		}
		c.running = nil
	}
}

// nudge has an informer's watch tell something: one that ends at once without a word counts as refused, and is followed by a list.
func nudge(t *testing.T, ctx context.Context, client typedcorev1.ConfigMapInterface, changes <-chan change, cluster string) {
	t.Helper()
	_, err := client.Patch(ctx, "one", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
	must(t, err)
	told(t, ctx, changes, "update "+cluster+" default/one")
}

// TestInformerReconnects loses an informer's connection: it goes on where it was, without a new list.
//
// Compatibility: client-go, informers after a lost connection and after an expired version
// Feature: WatchListClient
func TestInformerReconnects(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	config := configFor(t, cluster)
	writer := clientset(t, config).CoreV1().ConfigMaps(namespace)
	recorded := recordAll(config)
	network := &cutter{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		network.next = next
		return network
	})
	factory := informers.NewSharedInformerFactory(clientset(t, config), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	changes, _ := handle(t, informer)
	_, err := writer.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	must(t, err)
	factory.Start(ctx.Done())
	told(t, ctx, changes, "initial "+cluster+" default/one")
	nudge(t, ctx, writer, changes, cluster)
	network.set(true)
	_, err = writer.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "two"}}, metav1.CreateOptions{})
	must(t, err)
	must(t, writer.Delete(ctx, "one", metav1.DeleteOptions{}))
	network.set(false)
	told(t, ctx, changes, "add "+cluster+" default/two", "delete "+cluster+" default/one")
	lists := recorded.seen(func(one exchange) bool { return isWatchList(one) || !isWatch(one) })
	same(t, "lists", len(lists), 1)
}

// TestInformerListsAgain lets an informer go on from a version that the server has forgotten: it lists again, and misses nothing.
//
// Feature: WatchListClient
func TestInformerListsAgain(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	kubeconfig := os.Getenv("E2E_FORGETFUL_KUBECONFIG")
	config := configFrom(t, kubeconfig, cluster)
	client := clientset(t, config).CoreV1().ConfigMaps(namespace)
	eventually(t, ctx, func() string {
		_, err := client.List(ctx, metav1.ListOptions{ResourceVersion: "2", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if !apierrors.IsResourceExpired(err) {
			return fmt.Sprintf("version 2 has to be forgotten: %v", err)
		}
		return ""
	})
	late, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: "2"})
	must(t, err)
	refusal := receive(t, ctx, "refusal", late.ResultChan())
	same(t, "event", refusal.Type, watch.Error)
	expect(t, apierrors.IsResourceExpired, apierrors.FromObject(refusal.Object))
	_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	must(t, err)

	recorded := recordAll(config)
	network := &cutter{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		network.next = next
		return network
	})
	factory := informers.NewSharedInformerFactory(clientset(t, config), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	changes, _ := handle(t, informer)
	factory.Start(ctx.Done())
	told(t, ctx, changes, "initial "+cluster+" default/one")
	nudge(t, ctx, client, changes, cluster)
	var once sync.Once
	recorded.intercept(func(request *http.Request) error {
		if query := request.URL.Query(); query.Get("watch") != "" && query.Get("sendInitialEvents") == "" {
			once.Do(func() {
				query.Set("resourceVersion", "2")
				request.URL.RawQuery = query.Encode()
			})
		}
		return nil
	})
	network.set(true)
	must(t, client.Delete(ctx, "one", metav1.DeleteOptions{}))
	_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "two"}}, metav1.CreateOptions{})
	must(t, err)
	network.set(false)
	// A new list reports deleted objects first or last, as objects whose end was missed.
	found := []string{receive(t, ctx, "after the list", changes).String(), receive(t, ctx, "after the list", changes).String()}
	slices.Sort(found)
	sameAll(t, "changes", found, []string{"add " + cluster + " default/two", "missed delete " + cluster + " default/one"})
	forgotten := recorded.seen(func(one exchange) bool { return one.query.Get("resourceVersion") == "2" })
	same(t, "watches of the forgotten version", len(forgotten), 1)
}

// TestWatchTools waits with the tools that client-go has for it.
//
// Compatibility: client-go, watch tools: UntilWithSync, RetryWatcher, Until
// Feature: WatchListClient
func TestWatchTools(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	client := clientset(t, config).CoreV1().ConfigMaps(namespace)
	first, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	must(t, err)
	listWatch := func(config *corev1.ConfigMap) *cache.ListWatch {
		only := func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + config.Name }
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				only(&options)
				return client.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				only(&options)
				return client.Watch(ctx, options)
			},
		}
	}(first)
	failed := make(chan error, 1)
	go func() {
		for number := range 3 {
			if _, err := client.Patch(ctx, "one", types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, number), metav1.PatchOptions{}); err != nil {
				failed <- err
				return
			}
		}
		failed <- client.Delete(ctx, "one", metav1.DeleteOptions{})
	}()
	reached := func(number string) watchtools.ConditionFunc {
		return func(event watch.Event) (bool, error) {
			item, ok := event.Object.(*corev1.ConfigMap)
			return ok && item.Data["n"] == number, nil
		}
	}
	event, err := watchtools.Until(ctx, first.ResourceVersion, listWatch, reached("0"), reached("2"))
	must(t, err)
	same(t, "type", event.Type, watch.Modified)
	event, err = watchtools.UntilWithSync(ctx, listWatch, &corev1.ConfigMap{}, func(store cache.Store) (bool, error) {
		return len(store.List()) == 0, nil
	}, func(event watch.Event) (bool, error) { return event.Type == watch.Deleted, nil })
	must(t, err)
	if event != nil {
		same(t, "type", event.Type, watch.Deleted)
	}
	must(t, <-failed)

	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, first.ResourceVersion, listWatch)
	must(t, err)
	defer watcher.Stop()
	var kinds []watch.EventType
	for len(kinds) < 4 {
		kinds = append(kinds, receive(t, ctx, "event", watcher.ResultChan()).Type)
	}
	sameAll(t, "events", kinds, []watch.EventType{watch.Modified, watch.Modified, watch.Modified, watch.Deleted})
}

// TestTransport runs fifty informers on one client, with its transport's default settings and with HTTP/1.1 alone.
//
// Compatibility: client-go, fifty informers on one client over HTTP/1.1
// Feature: WatchListClient
func TestTransport(t *testing.T) {
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		t.Run(strings.Join(append([]string{"protocols"}, protocols...), " "), func(t *testing.T) {
			ctx := testContext(t)
			config := configFor(t, newCluster(t))
			config.NextProtos = protocols
			recorded := recordAll(config)
			client := clientset(t, config)
			const count = 50
			changes := make([]<-chan change, count)
			for i, name := range numbered("ns", count) {
				_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				must(t, err)
				factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(name))
				changes[i], _ = handle(t, factory.Core().V1().ConfigMaps().Informer())
				factory.Start(ctx.Done())
				for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
					same(t, kind.String(), synced, true)
				}
			}
			// All watches run while the same client writes.
			for round := range 3 {
				for i, name := range numbered("ns", count) {
					made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "map-" + strconv.Itoa(round), Namespace: name}}
					_, err := client.CoreV1().ConfigMaps(name).Create(ctx, made, metav1.CreateOptions{})
					must(t, err)
					seen := receive(t, ctx, "change", changes[i])
					same(t, "namespace", seen.item.GetNamespace(), name)
					same(t, "name", seen.item.GetName(), made.Name)
				}
			}
			// Every test here is one over HTTP/1.1 as long as this is what client and server agree on by themselves.
			for _, one := range recorded.seen(func(exchange) bool { return true }) {
				same(t, "protocol", one.protocol, "HTTP/1.1")
			}
			same(t, "watches", len(recorded.seen(isWatch)) >= count, true)
		})
	}
}
