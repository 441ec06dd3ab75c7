package listen

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
)

type emptyHandler struct{ http.Handler }

func (emptyHandler) ServeMalformed(http.ResponseWriter, *http.Request, int, error) {}

func instanceOf(t *testing.T, data string, masters ...string) *Instance {
	t.Helper()
	i, err := NewInstance(masters, data)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func serving(t *testing.T, i *Instance) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(i.Handler(service.Main, emptyHandler{http.NotFoundHandler()}))
	t.Cleanup(s.Close)
	return s
}

func addressOf(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

func TestInstance(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serving(t, instanceOf(t, data, "new", "old"))
	folder, err := filepath.EvalSymlinks(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, masters := range [][]string{{"new"}, {"old"}, {"newest", "new"}} { // during rotation
		if id, err := instanceOf(t, data, masters...).Ask(t.Context(), addressOf(s), false); err != nil || id.Data != folder || id.Listener != service.Main {
			t.Errorf("%v: %+v, %v", masters, id, err)
		}
	}
	for _, masters := range [][]string{{"other"}, nil} { // nil in a new data folder
		if id, err := instanceOf(t, data, masters...).Ask(t.Context(), addressOf(s), false); !errors.Is(err, ErrOtherSecrets) || !reflect.DeepEqual(id, Identity{}) {
			t.Errorf("%v: %+v, %v", masters, id, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, data + "/../" + filepath.Base(data)} {
		if got := instanceOf(t, name, "x").Data; got != folder {
			t.Errorf("%s is %s, not %s", name, got, folder)
		}
	}
}

// TestInstanceSettings checks that Ask names the settings that differ, and that no value or key can be read from the
// answer.
func TestInstanceSettings(t *testing.T) {
	t.Parallel()
	with := func(settings map[string]string) *Instance {
		i := instanceOf(t, "/data", "secret")
		i.Settings = func() map[string]string { return settings }
		return i
	}
	server := with(map[string]string{"a.same": "1", "a.other": "2", "b.also": "3", "c.only_there": "4"})
	s := serving(t, server)
	id, err := with(map[string]string{"a.same": "1", "a.other": "two", "b.also": "three", "d.only_here": "5"}).Ask(t.Context(), addressOf(s), false)
	if err != nil || !slices.Equal(id.Differ, []string{"a.other", "b.also"}) {
		t.Errorf("%v, %v", id.Differ, err)
	}
	again, err := with(nil).Ask(t.Context(), addressOf(s), false)
	if err != nil || len(again.Differ) > 0 {
		t.Errorf("%v, %v", again.Differ, err)
	}
	for path, hash := range id.Hashes {
		if len(hash) != hashLength || hash == again.Hashes[path] {
			t.Errorf("%s: hash %q, and %q for another nonce", path, hash, again.Hashes[path])
		}
	}
	// A release without settings.
	if id, err := instanceOf(t, "/data", "secret").Ask(t.Context(), addressOf(s), false); err != nil || len(id.Differ) > 0 {
		t.Errorf("%v, %v", id.Differ, err)
	}
	if id, err := server.Ask(t.Context(), addressOf(serving(t, instanceOf(t, "/data", "secret"))), false); err != nil || len(id.Differ) > 0 {
		t.Errorf("%v, %v", id.Differ, err)
	}
}

// TestInstanceOfAnother checks that no response makes another program look like the server.
func TestInstanceOfAnother(t *testing.T) {
	t.Parallel()
	own := instanceOf(t, t.TempDir(), "secret")
	server := serving(t, own)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]http.HandlerFunc{
		"empty":    func(http.ResponseWriter, *http.Request) {},
		"no proof": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":"/","listener":"main"}`)) },
		"echo": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"data":"","listener":"","port":"","proof":"` + r.Header.Get(instanceProof) + `"}`))
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for _, err := w.Write([]byte(`{"data":"`)); err == nil; {
				_, err = w.Write(make([]byte, 1<<16))
			}
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"redirected": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, server.URL+r.URL.Path, http.StatusFound)
		},
		"proxy": httputil.NewSingleHostReverseProxy(target).ServeHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := httptest.NewServer(h)
			defer other.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if id, err := own.Ask(ctx, addressOf(other), false); !errors.Is(err, ErrNotHoldfast) {
				t.Errorf("%+v, %v", id, err)
			}
		})
	}
	// Without a proof, the server hides its identity.
	for _, header := range []http.Header{{}, {instanceNonce: {"x"}}, {instanceNonce: {"x"}, instanceProof: {prove(own.keys[0], "check", "y")}}, {instanceProof: {prove(own.keys[0], "check", "")}}} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, instancePath, http.NoBody)
		req.Header = header
		w := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(w, req)
		if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), own.Data) {
			t.Errorf("%v: %d %s", header, w.Code, w.Body)
		}
	}
}
