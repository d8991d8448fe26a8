package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// connections are those of a client, which can be lost all at once.
type connections struct {
	mutex sync.Mutex
	open  []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	made, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.open = append(c.open, made)
	}
	return made, err
}

func (c *connections) cut() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, one := range c.open {
		one.Close()
	}
	count := len(c.open)
	c.open = nil
	return count
}

// proxied is a configuration of the caching proxy in front of the server, with a token of an administrator.
func proxied(t testing.TB, cluster string) *rest.Config {
	t.Helper()
	config := configFor(t, cluster)
	config.Host = os.Getenv("E2E_PROXY_URL") + "/clusters/" + cluster
	config.TLSClientConfig = rest.TLSClientConfig{CAFile: os.Getenv("E2E_PROXY_CA")}
	config.BearerToken = os.Getenv("E2E_PROXY_TOKEN")
	return config
}

// TestInformersThroughProxy compares what an informer is told through the caching proxy with what one is told by the server.
//
// Compatibility: client-go, shared informers through kcp-py proxy with and without WatchList
// Feature: WatchListClient
func TestInformersThroughProxy(t *testing.T) {
	ctx := testContext(t)
	cluster := newCluster(t)
	direct := configFor(t, cluster)
	maps := clientset(t, direct).CoreV1().ConfigMaps(namespace)
	create := func(name string) {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	for number := range 20 {
		create(fmt.Sprintf("early-%02d", number))
	}
	through := proxied(t, cluster)
	var network connections
	through.Dial = network.dial
	recorded := recordAll(through)

	follow := func(config *rest.Config) (cache.SharedIndexInformer, <-chan change) {
		factory := informers.NewSharedInformerFactory(clientset(t, config), 0)
		informer := factory.Core().V1().ConfigMaps().Informer()
		changes, _ := handle(t, informer)
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("an informer did not sync")
		}
		return informer, changes
	}
	first, ofServer := follow(direct)
	second, ofProxy := follow(through)
	versions := func(one change) string { return one.String() + " " + one.item.GetResourceVersion() }
	compare := func(count int) {
		t.Helper()
		for range count {
			wanted := versions(receive(t, ctx, "an event of the server", ofServer))
			same(t, "change", versions(receive(t, ctx, wanted, ofProxy)), wanted)
		}
	}
	initial := map[string]bool{}
	for range 20 {
		initial[versions(receive(t, ctx, "an object of the server", ofServer))] = true
	}
	for range 20 {
		delete(initial, versions(receive(t, ctx, "an object of the proxy", ofProxy)))
	}
	same(t, "objects that the proxy has not", len(initial), 0)

	for round := range 3 {
		for number := range 30 {
			name := fmt.Sprintf("round-%d-%02d", round, number)
			create(name)
			patch := []byte(`{"data":{"key":"value"}}`)
			_, err := maps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			must(t, err)
			if number%2 == 0 {
				must(t, maps.Delete(ctx, name, metav1.DeleteOptions{}))
			}
			if number == 10 && network.cut() == 0 {
				t.Fatal("there is no connection to the proxy")
			}
		}
		compare(75)
	}
	keys := func(informer cache.SharedIndexInformer) []string {
		return slices.Sorted(slices.Values(informer.GetStore().ListKeys()))
	}
	sameAll(t, "objects", keys(second), keys(first))

	// The server answers typed clients in protobuf, the cache in JSON.
	watches := recorded.seen(isWatch)
	if len(watches) < 4 {
		t.Fatalf("%d watches through three cuts", len(watches))
	}
	for _, one := range recorded.seen(func(one exchange) bool { return one.status == 200 }) {
		same(t, one.path+"?"+one.query.Encode(), one.answered, "application/json")
	}
}
