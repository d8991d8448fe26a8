// Package e2e holds the tests that use the Go clients as their users do: client-go and controller-runtime, unmodified, against a server
// of which they know a kubeconfig.
//
// A test's comment says which client it shows to work and what of it ("Compatibility: CLIENT, WHAT"), and which feature gate of
// client-go it is run with and without ("Feature: NAME"), and which options its server needs ("Server: OPTIONS"). e2e/test_go.py reads
// them, and runs each test in a process of its own.
package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// A limit for a busy machine; a longer wait does not succeed.
	patience = time.Minute
	often    = 20 * time.Millisecond

	protobuf    = "application/vnd.kubernetes.protobuf"
	clusterOf   = "kcp.io/cluster"
	allClusters = "*"
	namespace   = "default"
)

// configFor is the user's configuration (KUBECONFIG), pointed at a logical cluster or at all of them.
func configFor(t testing.TB, cluster string) *rest.Config {
	t.Helper()
	return configFrom(t, os.Getenv("KUBECONFIG"), cluster)
}

func configFrom(t testing.TB, kubeconfig, cluster string) *rest.Config {
	t.Helper()
	if kubeconfig == "" {
		t.Fatal("KUBECONFIG names no kubeconfig of a server")
	}
	name := "base"
	if cluster == allClusters {
		name = "shard-base"
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: name}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	must(t, err)
	config.Host += "/clusters/" + cluster
	// The client's own limit of five requests in a second would be what a test measures.
	config.QPS = -1
	config.UserAgent = "e2e"
	return config
}

// newCluster is the name of a logical cluster that no other test uses; it is deleted with the test.
func newCluster(t testing.TB) string {
	t.Helper()
	name := "go-" + strings.ToLower(strings.TrimPrefix(strings.Split(t.Name(), "/")[0], "Test")) + "-" + rand.String(5)
	t.Cleanup(func() { deleteCluster(t, name) })
	return name
}

func deleteCluster(t testing.TB, name string) {
	t.Helper()
	request := clientset(t, configFor(t, name)).RESTClient().Delete().AbsPath("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
	err := request.Do(context.Background()).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("deleting the logical cluster %s: %v", name, err)
	}
}

func clientset(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

func dynamicClient(t testing.TB, config *rest.Config) *dynamic.DynamicClient {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return client
}

// encodings are the ways in which a client asks for media types.
var encodings = []struct {
	name string
	set  func(*rest.Config)
	// What built-in kinds are written and answered in.
	mediaType string
}{
	{"json", func(config *rest.Config) { config.ContentType = "application/json" }, "application/json"},
	// The typed clients' own choice.
	{"default", func(*rest.Config) {}, protobuf},
	{
		"protobuf preferred",
		func(config *rest.Config) {
			config.ContentType = protobuf
			config.AcceptContentTypes = protobuf + ",application/json"
		},
		protobuf,
	},
	{"protobuf only", func(config *rest.Config) { config.ContentType = protobuf }, protobuf},
}

// exchange is what a request and its answer were.
type exchange struct {
	method, path   string
	query          url.Values
	sent, answered string
	protocol       string
	status         int
}

// recorder notes each exchange of the clients made from a configuration, and can come between them and the server.
type recorder struct {
	mutex     sync.Mutex
	exchanges []exchange
	// change, where given, may change a request before it is sent, or fail it.
	change func(*http.Request) error
	next   http.RoundTripper
}

func recordAll(config *rest.Config) *recorder {
	made := &recorder{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		made.next = next
		return made
	})
	return made
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mutex.Lock()
	change := r.change
	r.mutex.Unlock()
	if change != nil {
		request = request.Clone(request.Context())
		if err := change(request); err != nil {
			return nil, err
		}
	}
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.exchanges = append(r.exchanges, exchange{
		method:   request.Method,
		path:     request.URL.Path,
		query:    request.URL.Query(),
		sent:     request.Header.Get("Content-Type"),
		answered: response.Header.Get("Content-Type"),
		protocol: response.Proto,
		status:   response.StatusCode,
	})
	return response, nil
}

func (r *recorder) intercept(change func(*http.Request) error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.change = change
}

func (r *recorder) seen(which func(exchange) bool) []exchange {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(r.exchanges), func(one exchange) bool { return !which(one) })
}

func isWatch(one exchange) bool { return one.query.Get("watch") != "" }

func isWatchRequest(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }

func isWatchList(one exchange) bool {
	return isWatch(one) && one.query.Get("sendInitialEvents") == "true"
}

// testContext ends with the test, and in time to tell where it stood still.
func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// expect wants an error for which a predicate of apimachinery holds.
func expect(t testing.TB, is func(error) bool, err error) {
	t.Helper()
	if err == nil || !is(err) {
		t.Fatalf("unexpected error: %v", err)
	}
}

func same[T comparable](t testing.TB, what string, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("%s: %v instead of %v", what, found, wanted)
	}
}

func sameAll[T comparable](t testing.TB, what string, found, wanted []T) {
	t.Helper()
	if !slices.Equal(found, wanted) {
		t.Fatalf("%s:\n%s", what, diff.Diff(wanted, found))
	}
}

// eventually asks until it is told nothing that is missing.
func eventually(t testing.TB, ctx context.Context, missing func() string) {
	t.Helper()
	last := "nothing was asked"
	err := wait.PollUntilContextTimeout(ctx, often, patience, true, func(context.Context) (bool, error) {
		last = missing()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s (%v)", last, err)
	}
}

// receive is the next value of a channel.
func receive[T any](t testing.TB, ctx context.Context, what string, from <-chan T) T {
	t.Helper()
	select {
	case value, open := <-from:
		if !open {
			t.Fatalf("%s: the channel is closed", what)
		}
		return value
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
	case <-ctx.Done():
		t.Fatalf("%s: %v", what, ctx.Err())
	}
	panic("not reached")
}

func numbered(prefix string, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%02d", prefix, i)
	}
	return names
}
