// Package kcptest runs a Kubernetes API server for Go tests: one server for a test binary, and a logical cluster for each test.
//
//	func TestWidgets(t *testing.T) {
//		cluster := kcptest.NewCluster(t)
//		clients, err := kubernetes.NewForConfig(cluster.Config())
//		...
//	}
//
// A logical cluster is a complete API of its own. It costs nothing until it is used, so tests run in parallel and leave their objects behind.
// The server is the command kcp-py test-server. It keeps its objects in memory and ends with the test binary.
package kcptest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Command is the environment variable that names the command kcp-py, where it is not in PATH. Words are separated by blanks.
const Command = "KCP_PY"

// Wildcard is the name of all logical clusters together, for lists and watches.
const Wildcard = "*"

const stopTimeout = 10 * time.Second

// Options are the settings of a server. The zero value is good for most tests.
type Options struct {
	// Command starts kcp-py. Default: the words of the variable KCP_PY, else "kcp-py".
	Command []string
	// Args are further flags of kcp-py test-server, such as "--builtin-kinds=all" or "--controllers=".
	Args []string
	// Stderr gets the log of the server. Default: os.Stderr.
	Stderr io.Writer
}

// Server is a running server.
type Server struct {
	url, token string
	testing    string
	authority  []byte
	kubeconfig string
	process    *exec.Cmd
	input      io.Closer
	once, dial sync.Once
	http       *http.Client
	ended      error
}

// line is what the server prints when it is ready.
type line struct {
	URL        string `json:"url"`
	TestingURL string `json:"testingURL"`
	Token      string `json:"token"`
	CAData     string `json:"caData"`
	Kubeconfig string `json:"kubeconfig"`
}

// Start starts a server and waits until clients can begin. The end of ctx before that ends the start, and has no effect later.
func Start(ctx context.Context, options Options) (*Server, error) {
	command := options.Command
	if len(command) == 0 {
		command = strings.Fields(os.Getenv(Command))
	}
	if len(command) == 0 {
		command = []string{"kcp-py"}
	}
	arguments := append(append(command[1:len(command):len(command)], "test-server"), options.Args...)
	process := exec.Command(command[0], arguments...)
	process.Stderr = options.Stderr
	if process.Stderr == nil {
		process.Stderr = os.Stderr
	}
	input, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("kcptest: %w (the variable %s names the command)", err, Command)
	}
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := bufio.NewReader(output).ReadBytes('\n')
		read <- result{text, err}
	}()
	server := &Server{process: process, input: input}
	select {
	case <-ctx.Done():
		_ = process.Process.Kill()
		_ = process.Wait()
		return nil, ctx.Err()
	case found := <-read:
		about := line{}
		if err = found.err; err == nil {
			err = json.Unmarshal(found.text, &about)
		}
		if err != nil {
			_ = process.Process.Kill()
			return nil, fmt.Errorf("kcptest: the server did not start: %w", errors.Join(err, process.Wait()))
		}
		server.url, server.token, server.authority, server.kubeconfig = about.URL, about.Token, []byte(about.CAData), about.Kubeconfig
		server.testing = about.TestingURL
		return server, nil
	}
}

// Stop ends the server and waits for its end. It may be called more than once.
func (s *Server) Stop() error {
	s.once.Do(func() {
		// The server ends with its input.
		_ = s.input.Close()
		timer := time.AfterFunc(stopTimeout, func() { _ = s.process.Process.Kill() })
		defer timer.Stop()
		s.ended = s.process.Wait()
	})
	return s.ended
}

// URL is the address of the server, without a slash at its end.
func (s *Server) URL() string { return s.url }

// Kubeconfig is the path of a kubeconfig for the logical cluster root.
func (s *Server) Kubeconfig() string { return s.kubeconfig }

// Cluster is the logical cluster of a name. It exists as soon as something is written to it.
func (s *Server) Cluster(name string) *Cluster { return &Cluster{Name: name, server: s} }

// NewCluster is a logical cluster of this server that no other test uses.
func (s *Server) NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return s.Cluster("test-" + suffix(t))
}

// Cluster is a logical cluster: an API of its own.
type Cluster struct {
	// Name is its name in URLs.
	Name   string
	server *Server
}

// Config is the configuration of clients of an administrator, as that of envtest.Environment. Every call makes a new one.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host:            c.server.url + "/clusters/" + c.Name,
		BearerToken:     c.server.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: append([]byte(nil), c.server.authority...)},
		// Tests are not throttled by their client.
		QPS:   1000,
		Burst: 2000,
	}
}

// KubeconfigFile writes a kubeconfig for programs such as kubectl, into a directory that ends with the test.
func (c *Cluster) KubeconfigFile(t testing.TB) string {
	t.Helper()
	made := clientcmdapi.NewConfig()
	made.Clusters["test"] = &clientcmdapi.Cluster{Server: c.server.url + "/clusters/" + c.Name, CertificateAuthorityData: c.server.authority}
	made.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: c.server.token}
	made.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	made.CurrentContext = "test"
	path := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*made, path); err != nil {
		t.Fatal(err)
	}
	return path
}

var shared = sync.OnceValues(func() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Start(ctx, Options{Args: strings.Fields(os.Getenv("KCP_PY_TEST_SERVER_ARGS"))})
})

// Shared is the server of this test binary. The first call starts it, with the flags in KCP_PY_TEST_SERVER_ARGS. It ends with the process.
func Shared(t testing.TB) *Server {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// NewCluster is a logical cluster for one test, on the shared server.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return Shared(t).NewCluster(t)
}

func suffix(t testing.TB) string {
	t.Helper()
	bytes := make([]byte, 8)
	if _, err := rand.Read(bytes); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(bytes)
}
