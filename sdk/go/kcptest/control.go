package kcptest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// Fault is a rule by which requests to a cluster fail or wait. Fields that are empty select all requests.
// The documentation of the test server has the kinds and their fields.
type Fault struct {
	// Kind is latency, conflict, expired, tooManyRequests, internalError, unavailable, timeout, disconnect, shortWatches, storageError
	// or storageLatency.
	Kind string `json:"kind"`
	// Cluster is the name of the logical cluster. Cluster.AddFault sets it.
	Cluster string `json:"cluster,omitempty"`
	// Resource is written configmaps or deployments.apps.
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Verb        string `json:"verb,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	User        string `json:"user,omitempty"`
	// UserAgent is the beginning of the header of that name.
	UserAgent string `json:"userAgent,omitempty"`
	// Way is http, or process for controllers of the server.
	Way string `json:"way,omitempty"`
	// Times is how many requests fail. 0 stands for all.
	Times int `json:"times,omitempty"`
	// Skip is how many requests pass first.
	Skip int `json:"skip,omitempty"`
	// Probability is above 0 and at most 1. 0 stands for 1.
	Probability float64 `json:"probability,omitempty"`

	// Seconds is of latency, shortWatches and storageLatency.
	Seconds float64 `json:"seconds,omitempty"`
	// RetryAfter is of tooManyRequests and unavailable.
	RetryAfter int `json:"retryAfter,omitempty"`
	// How is of shortWatches: end, reset or expired.
	How string `json:"how,omitempty"`
	// Error is of storageError: unavailable, full or unknown.
	Error string `json:"error,omitempty"`
	// Method is of storageError and storageLatency: get, range, transact, watch, revision, compact or check.
	Method string `json:"method,omitempty"`
	// Afterwards is of disconnect and storageError: the request is carried out, and its answer is lost.
	Afterwards bool `json:"afterwards,omitempty"`
}

// AddedFault is a rule of the server.
type AddedFault struct {
	// ID is the number of the rule.
	ID     int
	server *Server
}

// AddFault adds a rule for requests to this cluster. It ends with the test.
func (c *Cluster) AddFault(t testing.TB, fault Fault) *AddedFault {
	t.Helper()
	if fault.Cluster == "" {
		fault.Cluster = c.Name
	}
	added := &AddedFault{server: c.server}
	var answer struct {
		ID int `json:"id"`
	}
	c.server.control(t, http.MethodPost, "/faults", fault, &answer)
	added.ID = answer.ID
	t.Cleanup(func() { _ = c.server.request(context.Background(), http.MethodDelete, added.path(), nil, nil) })
	return added
}

// Happened is how many requests the rule has changed.
func (f *AddedFault) Happened(t testing.TB) int {
	t.Helper()
	var answer struct {
		Happened int `json:"happened"`
	}
	f.server.control(t, http.MethodGet, f.path(), nil, &answer)
	return answer.Happened
}

// Remove lets requests pass from now on.
func (f *AddedFault) Remove(t testing.TB) {
	t.Helper()
	f.server.control(t, http.MethodDelete, f.path(), nil, nil)
}

func (f *AddedFault) path() string { return "/faults/" + strconv.Itoa(f.ID) }

// EndWatches ends the watches of this cluster that run now, and returns their number. how is "end", "reset" or "expired": in order, by a
// connection that breaks, or with the ERROR event 410.
func (c *Cluster) EndWatches(t testing.TB, how string) int {
	t.Helper()
	var answer struct {
		Ended int `json:"ended"`
	}
	c.server.control(t, http.MethodPost, "/watches", map[string]string{"how": how, "cluster": c.Name}, &answer)
	return answer.Ended
}

// Now is the time of the server.
func (s *Server) Now(t testing.TB) time.Time {
	t.Helper()
	var answer clock
	s.control(t, http.MethodGet, "/clock", nil, &answer)
	return answer.Now
}

// Advance lets time pass for all clusters of the server, and waits until its controllers have done what became due. It returns the time.
func (s *Server) Advance(t testing.TB, duration time.Duration) time.Time {
	t.Helper()
	var answer clock
	s.control(t, http.MethodPost, "/clock", map[string]string{"advance": duration.String()}, &answer)
	return answer.Now
}

// Settle waits until the controllers of the server have done all due work.
func (s *Server) Settle(t testing.TB) {
	t.Helper()
	s.control(t, http.MethodPost, "/clock", map[string]bool{"settle": true}, nil)
}

type clock struct {
	Now time.Time `json:"now"`
}

func (s *Server) control(t testing.TB, method, path string, body, answer any) {
	t.Helper()
	if err := s.request(t.Context(), method, path, body, answer); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) request(ctx context.Context, method, path string, body, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, s.testing+path, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := s.client().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		status := struct {
			Message string `json:"message"`
		}{string(text)}
		_ = json.Unmarshal(text, &status)
		return fmt.Errorf("kcptest: %s %s: %d: %s", method, path, response.StatusCode, status.Message)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func (s *Server) client() *http.Client {
	s.dial.Do(func() {
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM(s.authority)
		s.http = &http.Client{Transport: &http.Transport{
			Proxy:           func(*http.Request) (*url.URL, error) { return nil, nil },
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		}}
	})
	return s.http
}
