// Package ext is the extension storage workload: an install, its writers' operations, and the expected records and
// changes.
package ext

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	sdk "holdfast/client/ext"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/workload"
)

// Install is an extension install whose records several writers share.
type Install struct {
	ID      string
	Token   string
	Writers []*Writer

	mu      sync.Mutex
	newest  int64 // newest change seen by any client
	Counted int64 // sum of acknowledged shared counter increments

	// State at the last check.
	Feed   []Change
	Before int // number of changes before the round
	Rows   map[RecordKey]Row
}

// RecordKey identifies a record in an install.
type RecordKey struct{ Namespace, Key string }

// Namespaces returns the namespaces that all of an install's writers use.
func Namespaces() []string { return []string{"settings", "log"} }

// Counter is a record that all of an install's writers increment.
var Counter = RecordKey{"counters", "shared"}

// Token holds an install token's rights and lifetime.
type Token struct {
	Tenant, Install string
	Access          map[string]string // by namespace
	Begin           time.Time
	Life            time.Duration
}

// Sign returns the token, signed as by an external issuer.
func (t Token) Sign(key bearer.Key) (string, error) {
	keys, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{key}})
	if err != nil {
		return "", err
	}
	return keys.Sign(map[string]any{"tenant_id": t.Tenant, "install_id": t.Install, "ns": t.Access}, t.Begin, t.Life)
}

// NewInstall returns install n without writers.
func NewInstall(n int) *Install {
	return &Install{ID: InstallID(n), Rows: map[RecordKey]Row{}}
}

// Call is a request relative to an install's path.
type Call struct {
	Method, Path, Body string
	Header             map[string]string
}

// String names the request in errors.
func (c Call) String() string { return c.Method + " " + c.Path }

// InstallPath returns an install's path on the main listener.
func InstallPath(id string) string { return "/ext/v1/installs/" + id }

// Request returns a signed request with the content type that the path needs.
func (in *Install) Request(ctx context.Context, base string, c Call) (*http.Request, error) {
	req, err := workload.NewRequest(ctx, c.Method, base+InstallPath(in.ID)+c.Path, c.Body, "Authorization: Bearer "+in.Token)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Method == http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case c.Path == "/import":
		req.Header.Set("Content-Type", "application/x-ndjson")
	case c.Body != "":
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// Send sends a request once.
func (in *Install) Send(ctx context.Context, client *http.Client, base string, c Call) (workload.Answer, error) {
	req, err := in.Request(ctx, base, c)
	if err != nil {
		return workload.Answer{}, err
	}
	return workload.Do(client, req)
}

// SDK returns our own client without retries.
func (in *Install) SDK(base string, client *http.Client) (sdk.Install, error) {
	c, err := sdk.New(base, sdk.StaticToken(in.Token))
	if err != nil {
		return sdk.Install{}, err
	}
	c.HTTP, c.Retries = client, 0
	return c.Install(in.ID), nil
}

// Path returns the record's path below the install.
func (s RecordKey) Path() string {
	return "/namespaces/" + s.Namespace + "/records/" + url.PathEscape(s.Key)
}

// Knows returns the newest change seen by any client.
func (in *Install) Knows() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.newest
}

// NoteChange raises the newest change.
func (in *Install) NoteChange(seq int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.newest = max(in.newest, seq)
}

// count adds an acknowledged increment of the shared counter.
func (in *Install) count(by int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.Counted += by
}

// Seq returns the change in an entity tag.
func Seq(etag string) (int64, error) {
	text, err := strconv.Unquote(etag)
	if err != nil {
		return 0, fmt.Errorf("the tag %s: %w", etag, err)
	}
	return strconv.ParseInt(text, 10, 64)
}

// InstallID returns a fixed UUID for install n.
func InstallID(n int) string { return fmt.Sprintf("15a11000-0000-4000-8000-%012d", n) }
