// Runs client-go's shared informers on every logical cluster at once, and prints what they see.
//
// Each line of standard output is a JSON object: {"type": "synced" | "add" | "update" | "delete", "resource", "cluster", "namespace",
// "name", "resourceVersion", "object"}. The program ends when standard input does, after a last line {"type": "store"} with the keys that
// the informers hold.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	clusterAnnotation = "kcp.io/cluster"
	separator         = "|"
)

type event struct {
	Type            string         `json:"type"`
	Resource        string         `json:"resource,omitempty"`
	Cluster         string         `json:"cluster,omitempty"`
	Namespace       string         `json:"namespace,omitempty"`
	Name            string         `json:"name,omitempty"`
	ResourceVersion string         `json:"resourceVersion,omitempty"`
	Object          map[string]any `json:"object,omitempty"`
	Keys            []string       `json:"keys,omitempty"`
}

type printer struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func (p *printer) print(line event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.encoder.Encode(line); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// qualify puts the cluster before the name, because an informer's own keys are namespace and name alone.
func qualify(object runtime.Object) {
	if item, ok := object.(*unstructured.Unstructured); ok {
		if cluster := item.GetAnnotations()[clusterAnnotation]; cluster != "" {
			item.SetName(cluster + separator + item.GetName())
		}
	}
}

func listWatch(client dynamic.Interface, resource schema.GroupVersionResource) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.Resource(resource).List(ctx, options)
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				qualify(&list.Items[i])
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.Resource(resource).Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(stream, func(in watch.Event) (watch.Event, bool) {
				qualify(in.Object)
				return in, true
			}), nil
		},
	}, client)
}

func described(kind, resource string, object any) event {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	item := object.(*unstructured.Unstructured)
	cluster, name, _ := strings.Cut(item.GetName(), separator)
	return event{kind, resource, cluster, item.GetNamespace(), name, item.GetResourceVersion(), item.Object, nil}
}

func main() {
	host := flag.String("host", "", "URL of the server, with the path of the clusters")
	authority := flag.String("ca-file", "", "certificate authority of the server")
	token := flag.String("token", "", "bearer token")
	flag.Parse()

	client, err := dynamic.NewForConfig(&rest.Config{
		Host:            *host,
		BearerToken:     *token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: *authority},
	})
	if err != nil {
		fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &printer{encoder: json.NewEncoder(os.Stdout)}
	var informers []cache.SharedIndexInformer
	for _, argument := range flag.Args() {
		resource, _ := schema.ParseResourceArg(argument)
		if resource == nil {
			fatal(fmt.Errorf("%q is not of the form resource.version.group", argument))
		}
		informer := cache.NewSharedIndexInformer(listWatch(client, *resource), &unstructured.Unstructured{}, 0, nil)
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { out.print(described("add", resource.Resource, object)) },
			UpdateFunc: func(_, object any) { out.print(described("update", resource.Resource, object)) },
			DeleteFunc: func(object any) { out.print(described("delete", resource.Resource, object)) },
		})
		if err != nil {
			fatal(err)
		}
		informers = append(informers, informer)
		go informer.RunWithContext(ctx)
		go func() {
			if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
				out.print(event{Type: "synced", Resource: resource.Resource})
			}
		}()
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fatal(err)
	}
	keys := []string{}
	for _, informer := range informers {
		keys = append(keys, informer.GetStore().ListKeys()...)
	}
	out.print(event{Type: "store", Keys: keys})
}
