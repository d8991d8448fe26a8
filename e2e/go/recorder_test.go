package e2e

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// TestEventRecorder records events with both of client-go's recorders: repeated ones are counted by patches.
//
// Compatibility: client-go, event recorders of core/v1 (counts) and events.k8s.io/v1 (series)
func TestEventRecorder(t *testing.T) {
	ctx := testContext(t)
	config := configFor(t, newCluster(t))
	recorded := recordAll(config)
	client := clientset(t, config)
	about, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "about"}}, metav1.CreateOptions{})
	must(t, err)

	old := record.NewBroadcaster(record.WithContext(ctx), record.WithSleepDuration(time.Millisecond))
	old.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	defer old.Shutdown()
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "e2e"})
	for range 3 {
		recorder.Eventf(about, corev1.EventTypeWarning, "Repeated", "seen %s", "again")
	}
	eventually(t, ctx, func() string {
		found, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=about,reason=Repeated,type=Warning,involvedObject.uid=" + string(about.UID),
		})
		must(t, err)
		if len(found.Items) != 1 || found.Items[0].Count != 3 {
			return "one event has to be counted three times"
		}
		// The answer to the last one may still be on its way to the recorder.
		if len(recorded.seen(isEventPatch)) != 2 {
			return "two patches have to be answered"
		}
		return ""
	})
	found, err := client.CoreV1().Events(namespace).SearchWithContext(ctx, scheme.Scheme, about)
	must(t, err)
	same(t, "found by the object", len(found.Items), 1)

	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	must(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	defer broadcaster.Shutdown()
	newer := broadcaster.NewRecorder(scheme.Scheme, "e2e.example.com/recorder")
	newer.Eventf(about, nil, corev1.EventTypeNormal, "Serial", "Testing", "seen %s", "again")
	serial := func() *eventsv1.Event {
		found, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Serial"})
		must(t, err)
		if len(found.Items) != 1 {
			return nil
		}
		return &found.Items[0]
	}
	eventually(t, ctx, func() string {
		if serial() == nil {
			return "the event has to be written"
		}
		return ""
	})
	// A second one makes it a series.
	newer.Eventf(about, nil, corev1.EventTypeNormal, "Serial", "Testing", "seen %s", "again")
	eventually(t, ctx, func() string {
		if one := serial(); one == nil || one.Series == nil || one.Series.Count != 2 {
			return "the event has to become a series of two"
		}
		return ""
	})
	same(t, "regarding", serial().Regarding.UID, about.UID)
	// Both groups show the same events.
	asCore, err := client.CoreV1().Events(namespace).Get(ctx, serial().Name, metav1.GetOptions{})
	must(t, err)
	same(t, "involved", asCore.InvolvedObject.UID, about.UID)
	same(t, "message", asCore.Message, "seen again")
	same(t, "series", asCore.Series.Count, 2)
}

func isEventPatch(one exchange) bool { return one.method == http.MethodPatch }
