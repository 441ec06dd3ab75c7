package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

type visitor struct {
	t *testing.T
	guest.Visitor
}

func newVisitor(t *testing.T, s *binary.Server) *visitor {
	t.Helper()
	v := &visitor{t: t}
	if err := v.Begin(t.Context(), s.URL); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *visitor) send(s *binary.Server, method, path, body, key string) (status int, text string) {
	v.t.Helper()
	a, err := v.Send(v.t.Context(), s.URL, guest.Call{Method: method, Path: path, Body: body, Key: key})
	if err != nil {
		v.t.Fatal(err)
	}
	return a.Status, a.Body
}

// TestGuest checks that sessions and wishlists survive a kill on each engine: the cookie stays valid, and a repeated
// request gets its first response.
func TestGuest(t *testing.T) {
	t.Parallel()
	for name, vars := range guestEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, vars := t.TempDir(), append(vars(t), "HOLDFAST_GUEST__ENABLED=true")
			binary.Migrate(t, data, vars...)
			s := binary.Start(t, data, vars...)
			v := &visitor{t: t}
			want := func(status int, method, path, body, key, part string) (text string) {
				t.Helper()
				got, text := v.send(s, method, path, body, key)
				if got != status || !strings.Contains(text, part) {
					t.Fatalf("%s %s: %d %s, want %d and %s", method, path, got, text, status, part)
				}
				return text
			}
			want(http.StatusOK, http.MethodGet, "/wishlist", "", "", `"items":[]`)
			want(http.StatusCreated, http.MethodPost, "/session", "", "", "createdAt")
			first := want(http.StatusCreated, http.MethodPost, "/wishlist", guest.Wish(1), "one", "wsh_")
			s.Kill()
			s = binary.Start(t, data, vars...)
			if again := want(http.StatusCreated, http.MethodPost, "/wishlist", guest.Wish(1), "one", "wsh_"); again != first {
				t.Errorf("repeated after the kill: %s, want %s", again, first)
			}
			want(http.StatusUnprocessableEntity, http.MethodPost, "/wishlist", guest.Wish(2), "one", "idempotency-key-reused")
			want(http.StatusOK, http.MethodGet, "/wishlist", "", "", "00000001-2222")
			want(http.StatusNoContent, http.MethodPost, "/session/clear", "", "two", "")
			want(http.StatusOK, http.MethodGet, "/wishlist", "", "", `"items":[]`)
		})
	}
}

// TestGuestByDefault checks that guests are enabled by default unless other machines reach the server, directly or
// through a public URL. The check reports this and names the setting.
func TestGuestByDefault(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := binary.Start(t, data, binary.GuestsByDefault)
	if !strings.Contains(s.Output.String(), "\n  guest        "+filepath.Join(data, "guest.db")+"\n") || !strings.Contains(s.Output.String(), "  "+s.URL+"/guest/demo\n") {
		t.Errorf("the start message lacks the database or the guest demo:\n%s", s.Output)
	}
	for path, part := range map[string]string{"/guest/demo": "<title>", "/bff/consumer/v1/facets/AT/vienna": `"total":20`, "/": s.URL + "/guest/demo"} {
		if status, body := s.Get(path); status != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if r := binary.Run(t, s.Env, "check"); !strings.Contains(r.Stdout, "the built-in catalogue") {
		t.Errorf("check:\n%s%s", r.Stdout, r.Stderr)
	}
	s.Kill()
	public := "HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org"
	s = binary.Start(t, data, binary.GuestsByDefault, public)
	const why = "server.public_url is set, so other machines may reach this server, and guests need no account: set guest.enabled = true to serve them, or false"
	for _, path := range []string{"/guest/demo", "/bff/consumer/v1/session"} {
		if status, body := s.Get(path); status != http.StatusNotFound || !strings.Contains(body, why) {
			t.Errorf("behind a public URL, %s: %d %s", path, status, body)
		}
	}
	if out := s.Output.String(); strings.Contains(out, "guest.db") || !strings.Contains(out, "\n  guest        off ("+why+")\n") {
		t.Errorf("behind a public URL:\n%s", out)
	}
	if r := binary.Run(t, s.Env, "check"); !strings.Contains(r.Stdout, "the service is off: "+why) {
		t.Errorf("check:\n%s%s", r.Stdout, r.Stderr)
	}
}
