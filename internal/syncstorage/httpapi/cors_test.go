package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestPreflight checks that preflights need no credentials and may have any path.
func TestPreflight(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, path := range []string{u.path("/__heartbeat__"), u.path("/storage/toys"), u.path(""), "/1.5/x/y/z", "/1.5//", "/storage/1.5/%00"} {
		for _, origin := range []string{"localhost", "https://example.org:8443", "null", "moz-extension://1"} {
			a := u.send(u.unsigned(http.MethodOptions, path, nil, "Origin: "+origin, "Access-Control-Request-Method: PUT"))
			a.has("Access-Control-Allow-Origin", origin).has("Access-Control-Max-Age", "1728000").has("Vary", "Origin").
				has("Access-Control-Allow-Methods", "DELETE, GET, POST, PUT").has("Access-Control-Allow-Credentials", "")
			if a.status != http.StatusNoContent || a.body != "" {
				t.Errorf("%s: %d %q", path, a.status, a.body)
			}
			for _, name := range []string{"Authorization", "Content-Type", "User-Agent", "X-If-Unmodified-Since", "X-Last-Modified", "X-Weave-Records", "X-Weave-Total-Bytes"} {
				if !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), name) {
					t.Errorf("%s is not allowed", name)
				}
			}
		}
	}
	for _, a := range []*answer{u.get("/info/collections", "Origin: https://a"), u.get("/storage/toys/a", "Origin: https://a"), u.get("/nothing", "Origin: https://a"),
		u.send(u.unsigned("GET", u.path("/info/quota"), nil, "Origin: https://a"))} {
		a.has("Access-Control-Allow-Origin", "https://a").has("Vary", "Origin").has("Access-Control-Max-Age", "")
		for _, name := range []string{"X-Weave-Timestamp", "X-Last-Modified", "X-Weave-Next-Offset", "Retry-After"} {
			if !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), name) {
				t.Errorf("%s is not exposed", name)
			}
		}
	}
	u.get("/info/collections").is(200).has("Access-Control-Allow-Origin", "").has("Vary", "")
}

func TestOldClients(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const phone = " (iPhone; iPhone OS 13.2.2) (Firefox)"
	for agent, refused := range map[string]bool{
		"Firefox-iOS-Sync/18.0b1" + phone:                                      true,
		"Firefox-iOS-Sync/1.0b1" + phone:                                       true,
		"Firefox-iOS-Sync/19.9b99999 (iPad; iPhone OS 13.2.2) (Fennec (mine))": true,
		"Firefox-iOS-Sync/20.0b1" + phone:                                      false,
		"Firefox-iOS-Sync/118.0b1" + phone:                                     false,
		"Firefox-iOS-Sync/0.0.1b1" + phone:                                     false,
		"Firefox-iOS-Sync/0.0b0" + phone:                                       false,
		"Firefox-iOS-Sync/dev" + phone:                                         false,
		"Firefox-iOS-Sync/-1.0b1" + phone:                                      false,
		"Firefox-iOS-Sync/99999999999999999999.0b1" + phone:                    false,
		"Firefox-iOS-Sync/18.0" + phone:                                        false,
		"Firefox-iOS-Sync/18.0b1":                                              false,
		"Firefox-iOS-Sync/":                                                    false,
		"Firefox-iOS-FxA/18.0b1" + phone:                                       false,
		"x Firefox-iOS-Sync/18.0b1" + phone:                                    false,
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140": false,
	} {
		if !refused {
			u.get("/info/collections", "User-Agent: "+agent).is(200)
			continue
		}
		for _, path := range []string{"/info/collections", "/info/configuration", "/nothing"} {
			res, err := u.Client().Do(u.request("GET", u.path(path), nil, "User-Agent: "+agent))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if h := res.Header; res.StatusCode != 503 || h.Get("X-Weave-Timestamp") != "" || h.Get("Retry-After") != "" || h.Get("Content-Length") != "1" {
				t.Errorf("%s: %d %v", agent, res.StatusCode, h)
			}
		}
	}
}
