package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/alerts"
	"holdfast/internal/app/service"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/conf"
	"holdfast/internal/sweep"
	"holdfast/internal/testdb"
)

// remembered declares a failure that the server keeps after it happened, so that an operator sees it later. A failure
// that nothing ends would be a warning for ever: TestRemembered causes each of them, and ends it.
type remembered struct {
	name string

	// held are the places that keep it: fields as FOLDER.STRUCT.FIELD below internal, and columns as SQL:TABLE.COLUMN.
	// TestRememberedIsWhole finds the places in the code.
	held []string

	shown string // where an operator sees it
	ends  string // the events that end it, besides off
	off   string // how it ends when its job is switched off, or why the job cannot be

	isFake bool // runs with fake time
	begin  func(t *testing.T) story
}

// story lists the steps for a walk. Each returns when its real work is done; isShown may follow later.
type story struct {
	isShown func() bool
	fail    func()
	succeed func() // the same job, with another setting where it has one
	turnOff func() // nil: see remembered.off

	server *walkedServer // to explain a failed walk; may be nil
}

// text returns the server's findings, for a failed walk.
func (s *story) text() string {
	if s.server == nil {
		return ""
	}
	return s.server.says()
}

// TestRemembered walks all remembered failures: it causes each, sees it, and sees it end after a success of the same job,
// and when the job is switched off.
func TestRemembered(t *testing.T) {
	testdb.CheckOnly(t, "it starts a server for each failure")
	t.Parallel()
	for _, one := range allRemembered {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			if one.isFake {
				synctest.Test(t, func(t *testing.T) { one.walk(t) })
				return
			}
			one.walk(t)
		})
	}
}

func (r *remembered) walk(t *testing.T) {
	s := r.begin(t)
	within := patience
	if r.isFake {
		within = time.Hour
	}
	await := func(when string, want bool) {
		t.Helper()
		if !polled(within, func() bool { return s.isShown() == want }) {
			t.Fatalf("%s: shown is %v; the server says\n%s", when, !want, s.text())
		}
	}
	for round := range 2 {
		s.fail()
		await(fmt.Sprintf("failure %d", round+1), true)
		switch {
		case round == 0:
			s.succeed()
			await("after a success", false)
		case s.turnOff != nil:
			s.turnOff()
			await("after the job was switched off", false)
		}
	}
}

// TestRememberedIsDocumented compares the table in the guide with the declarations.
func TestRememberedIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## Remembered failures\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| failure | ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, one := range allRemembered {
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", one.name, one.shown, one.ends, one.off))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/monitoring.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// walkedServer is a whole server in this process, which a story restarts with other settings on the same data.
type walkedServer struct {
	t     *testing.T
	data  string
	file  string // configuration
	brush *brush
	ahead atomic.Int64 // added to the machine's clock
	*App
	stop func()
}

const walkedToken = "token-of-an-operator-in-a-walk-0123456789"

func newWalkedServer(t *testing.T) *walkedServer {
	t.Helper()
	s := &walkedServer{t: t, data: t.TempDir(), file: filepath.Join(t.TempDir(), "holdfast.toml"), stop: func() {}, brush: &brush{}}
	s.configure("")
	t.Cleanup(func() { s.stop() })
	return s
}

// configure writes the configuration file, which the next start or reload reads.
func (s *walkedServer) configure(text string) { s.must(os.WriteFile(s.file, []byte(text), 0o600)) }

func (s *walkedServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// load reads the configuration. settings are variables without HOLDFAST_, which override the file.
func (s *walkedServer) load(settings ...string) (*Config, error) {
	environ := []string{
		"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0",
		"HOLDFAST_SERVER__ADMIN_TOKEN=" + walkedToken, "HOLDFAST_BUCKETS__ENABLED=true",
		"HOLDFAST_TOKENSERVER__ENABLED=false", // it would ask the accounts server in each check
	}
	for _, one := range settings {
		environ = append(environ, "HOLDFAST_"+one)
	}
	s.brush.Enabled = false
	own := service.Service{Name: "brush", Doc: "A job of a test.", Config: s.brush, Open: s.brush.open}
	cfg, _, err := Load(append(Services(), own), s.file, environ)
	return cfg, err
}

// start restarts the server with these settings, and no others.
func (s *walkedServer) start(settings ...string) {
	s.t.Helper()
	s.stop()
	cfg, err := s.load(settings...)
	s.must(err)
	a, err := Open(s.t.Context(), Options{
		Config: cfg, Data: s.data, LogTo: io.Discard, Mode: ModeServe, Reload: Reload{Read: func() (*Config, error) { return s.load(settings...) }},
		Clock: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) },
	})
	s.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	started, ended := make(signalled), make(chan error, 1)
	go func() { ended <- a.Serve(ctx, started) }()
	select {
	case <-started:
	case err := <-ended:
		cancel()
		s.t.Fatalf("the server does not start: %v", err)
	}
	s.App = a
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the server ended: %v", err)
		}
		if err := a.Close(); err != nil {
			s.t.Error(err)
		}
		s.stop = func() {}
	}
	<-a.reloads.serving
}

// signalled is closed by the first write.
type signalled chan struct{}

func (s signalled) Write(p []byte) (int, error) {
	select {
	case <-s:
	default:
		close(s)
	}
	return len(p), nil
}

// says returns the running server's findings and alert conditions.
func (s *walkedServer) says() string {
	var b strings.Builder
	for _, f := range s.checkRunning(s.t.Context()) {
		fmt.Fprintf(&b, "%s %s: %s\n", f.State, f.What, f.Says)
	}
	for _, c := range s.overview.Conditions(s.t.Context(), alerts.Settings{}) {
		fmt.Fprintf(&b, "condition %s %s: %s\n", c.Name, c.Subject, c.Says)
	}
	return b.String()
}

// shows returns a function for story.isShown: all these texts are among the findings and conditions.
func (s *walkedServer) shows(texts ...string) func() bool {
	return func() bool {
		all := s.says()
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all, text) })
	}
}

// api sends a request to the admin listener, and returns the answer, which must have a status below 300.
func (s *walkedServer) api(method, path, body string) (answer map[string]any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addresses[service.Admin]+path, strings.NewReader(body))
	s.must(err)
	r.Header.Set("Authorization", "Bearer "+walkedToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	s.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.must(err)
	if resp.StatusCode >= http.StatusMultipleChoices {
		s.t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		s.must(json.Unmarshal(text, &answer))
	}
	return answer
}

// latest returns the latest background job in a service's list, or nil.
func (s *walkedServer) latest(path string) map[string]any {
	s.t.Helper()
	all, _ := s.api(http.MethodGet, path, "")["runs"].([]any)
	if len(all) == 0 {
		return nil
	}
	run, _ := all[0].(map[string]any)
	return run
}

// patience limits how long a walk waits for the server on a busy machine.
const patience = 60 * time.Second

// polled waits for the server to reach a state, which gives no signal to a caller. It returns false after within.
func polled(within time.Duration, isDone func() bool) bool {
	for end := time.Now().Add(within); !isDone(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// await fails the test unless something happens within patience.
func (s *walkedServer) await(what string, isDone func() bool) {
	s.t.Helper()
	if !polled(patience, isDone) {
		s.t.Fatalf("%s did not happen", what)
	}
}

// awaitRun waits until the latest background job has ended.
func (s *walkedServer) awaitRun(path string) {
	s.t.Helper()
	s.await("the end of "+path, func() bool { return s.latest(path)["ended"] != nil })
}

// s3 is a client for the server's buckets.
type s3 struct {
	*walkedServer
	key sigv4test.Signer
}

// newS3 creates an account with a key, and the bucket photos.
func (s *walkedServer) newS3() *s3 {
	s.t.Helper()
	made := s.api(http.MethodPost, "/buckets/accounts/walker/create", "")
	s.api(http.MethodPost, "/buckets/buckets/walker/photos/create", "")
	return &s3{s, sigv4test.Signer{AccessKeyID: made["accessKey"].(string), Secret: made["secretKey"].(string), Region: "us-east-1"}}
}

func (c *s3) endpoint() string { return "http://" + c.addresses["s3"] }

// do sends a request about an object, and returns the status and whether the whole answer was received.
func (c *s3) do(method, key, body string) (status int, isWhole bool) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.endpoint()+"/photos/"+key, strings.NewReader(body))
	c.must(err)
	c.key.Sign(r, sigv4test.Unsigned, time.Now().Add(time.Duration(c.ahead.Load())))
	resp, err := http.DefaultClient.Do(r)
	c.must(err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err == nil
}

func (c *s3) put(key, body string) {
	c.t.Helper()
	if status, _ := c.do(http.MethodPut, key, body); status != http.StatusOK {
		c.t.Fatalf("put %s: %d", key, status)
	}
}

// brush is a service with a sweep and a readiness that fail on request.
type brush struct {
	Enabled bool `toml:"enabled" doc:"Serve the brush."`

	mu    sync.Mutex
	fails error
}

func (b *brush) IsEnabled() bool      { return b.Enabled }
func (b *brush) Check() conf.Problems { return nil }

func (b *brush) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails = err
}

func (b *brush) failure(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fails
}

func (b *brush) open(context.Context, *service.Deps) (*service.Opened, error) {
	run := func(ctx context.Context, _ time.Time, _ int) (int, error) { return 0, b.failure(ctx) }
	return &service.Opened{Ready: b.failure, Jobs: []sweep.Job{{Name: "brush", Every: time.Hour, Limit: 1, Run: run}, {Name: "brush by hand", Limit: 1, Run: run}}}, nil
}
