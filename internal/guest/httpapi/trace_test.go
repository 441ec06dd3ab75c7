package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	inProfiles(t, trace)
}

func trace(t *testing.T, s *server) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	parent := "Traceparent: 00-" + id + "-b7ad6b7169203331-01"
	b := s.begin()
	wish := func(n int, headers ...string) answer {
		t.Helper()
		return b.send(http.MethodPost, "/wishlist", s.wish(s.nth(n)), headers...)
	}
	for _, c := range []struct{ state, want string }{
		{`a=b"\\,c=d`, `{"traceparent":"` + parent[13:] + `","tracestate":"a=b\"\\\\,c=d"}`},
		{"not valid", `{"traceparent":"` + parent[13:] + `"}`},
		{"a=" + strings.Repeat("b", 250) + ",c=" + strings.Repeat("d", 250) + ",e=f,g=hijk", `{"traceparent":"` + parent[13:] + `"}`},
	} {
		before := len(s.waiting())
		b.check(wish(before, parent, "Tracestate: "+c.state), 201)
		events := s.waiting()
		if got := strings.ReplaceAll(string(events[len(events)-1].Headers), " ", ""); len(events) != before+1 || got != c.want {
			t.Errorf("%s: %s, want %s", c.state, got, c.want)
		}
	}
	b.check(b.send(http.MethodGet, "/wishlist?limit=0", "", parent), 400, `"traceId":"`+id+`"`, `"instance":"`+api+`/wishlist"`, `"requestId":"`)
	if a := b.send(http.MethodGet, "/%C3%A4%22", ""); strings.Contains(a.body, "traceId") || !strings.Contains(a.body, `"instance":"`+api+`/%C3%A4%22"`) {
		t.Errorf("without a trace: %s", a.body)
	}
}
