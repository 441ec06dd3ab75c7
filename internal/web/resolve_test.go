package web_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

type arrival struct {
	peer   string // default: not a proxy
	tls    bool
	host   string
	target string            // default "/x?y"
	header map[string]string // \n separates lines of the same header
}

func (a arrival) request() *http.Request {
	r := &http.Request{Host: a.host, RequestURI: a.target, RemoteAddr: a.peer, Header: http.Header{}}
	if r.RequestURI == "" {
		r.RequestURI = "/x?y"
	}
	if r.RemoteAddr == "" {
		r.RemoteAddr = "192.0.2.9:4711"
	}
	if a.tls {
		r.TLS = &tls.ConnectionState{}
	}
	for name, lines := range a.header {
		for line := range strings.SplitSeq(lines, "\n") {
			r.Header.Add(name, line)
		}
	}
	return r
}

func resolver(t testing.TB, public string, trusted ...string) *web.Resolver {
	t.Helper()
	r, err := web.NewResolver(public, trusted)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const proxy = "10.0.0.1:5000"

func TestResolveOrigin(t *testing.T) {
	t.Parallel()
	type header = map[string]string
	behind := resolver(t, "", "10.0.0.0/8", "::1", "::ffff:127.0.0.1")
	for _, tc := range []struct {
		name    string
		arrival arrival
		want    string // "" if refused
	}{
		{"the Host header", arrival{host: "Sync.Example:8000"}, "http://sync.example:8000"},
		{"without a port", arrival{host: "sync.example"}, "http://sync.example"},
		{"over TLS", arrival{host: "sync.example", tls: true}, "https://sync.example"},
		{"an IPv6 literal", arrival{host: "[::1]:8000"}, "http://[::1]:8000"},
		{"no host", arrival{}, ""},
		{"a host with a path", arrival{host: "a/b"}, ""},
		{"a host with a user", arrival{host: "u@a"}, ""},
		{"a bad port", arrival{host: "a:b"}, ""},

		{"a stranger's headers", arrival{host: "a", header: header{"Forwarded": "host=b;proto=https", "X-Forwarded-Host": "c"}}, "http://a"},
		{"a stranger's malformed headers", arrival{host: "a", header: header{"Forwarded": ";;;=", "X-Forwarded-Port": "x"}}, "http://a"},

		{"Forwarded", arrival{peer: proxy, host: "in", header: header{"Forwarded": `for=192.0.2.1;proto=https;host=out.example`}}, "https://out.example"},
		{"Forwarded with a port", arrival{peer: proxy, host: "in", header: header{"Forwarded": `proto=https;host="out.example:8443"`}}, "https://out.example:8443"},
		{"Forwarded beats X-Forwarded", arrival{peer: proxy, host: "in", header: header{"Forwarded": `host=out`, "X-Forwarded-Host": "x"}}, "http://out"},
		{"Forwarded without a host", arrival{peer: proxy, host: "out:81", header: header{"Forwarded": `for=_hidden;PROTO=HTTPS`}}, "https://out:81"},
		{"what a stranger wrote before", arrival{peer: proxy, host: "in", header: header{"Forwarded": `host=evil;proto=http, for=192.0.2.1;host=out;proto=https`}}, "https://out"},
		{"two of our proxies", arrival{peer: proxy, host: "in", header: header{"Forwarded": "for=192.0.2.1;host=out;proto=https\nfor=10.9.9.9;host=middle;proto=http"}}, "https://out"},
		{"two of our proxies, IPv6", arrival{peer: "[::1]:5000", host: "in", header: header{"Forwarded": `host=out;proto=https, for="[::1]:99";host=middle`}}, "https://out"},
		{"the inner one knows more", arrival{peer: proxy, host: "in", header: header{"Forwarded": `for=192.0.2.1, for=10.9.9.9;host=middle;proto=https`}}, "https://middle"},
		{"empty elements", arrival{peer: proxy, host: "in", header: header{"Forwarded": ` , ;host=out; ,`}}, "http://out"},
		{"a quoted pair", arrival{peer: proxy, host: "in", header: header{"Forwarded": `host="o\ut";x="a,\";b"`}}, "http://out"},

		{"X-Forwarded", arrival{peer: proxy, host: "in", header: header{"X-Forwarded-Host": "out.example", "X-Forwarded-Proto": "https"}}, "https://out.example"},
		{"X-Forwarded-Port", arrival{peer: proxy, host: "out", header: header{"X-Forwarded-Proto": "https", "X-Forwarded-Port": "8443"}}, "https://out:8443"},
		{"the host's own port wins", arrival{peer: proxy, host: "out:81", header: header{"X-Forwarded-Port": "82"}}, "http://out:81"},
		{"an appending proxy", arrival{peer: proxy, host: "in", header: header{"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "evil, out"}}, "http://out"},
		{"two appending proxies", arrival{peer: proxy, host: "in", header: header{"X-Forwarded-For": "192.0.2.1, 10.1.1.1", "X-Forwarded-Host": "evil, out, middle"}}, "http://out"},
		{"two proxies, one replaces", arrival{peer: proxy, host: "in", header: header{"X-Forwarded-For": "192.0.2.1, 10.1.1.1", "X-Forwarded-Host": "out"}}, "http://out"},
		{"a proxy that maps IPv4", arrival{peer: "[::ffff:10.0.0.1]:5000", host: "in", header: header{"X-Forwarded-Host": "out"}}, "http://out"},
		{"a trusted address that maps IPv4", arrival{peer: "127.0.0.1:5000", host: "in", header: header{"X-Forwarded-Host": "out"}}, "http://out"},

		{"another protocol", arrival{peer: proxy, host: "a", header: header{"X-Forwarded-Proto": "wss"}}, ""},
		{"an impossible port", arrival{peer: proxy, host: "a", header: header{"X-Forwarded-Port": "70000"}}, ""},
		{"an impossible host", arrival{peer: proxy, host: "a", header: header{"X-Forwarded-Host": "a b"}}, ""},
	} {
		a := behind.Resolve(tc.arrival.request())
		err := a.Err
		switch {
		case tc.want == "" && !errcode.Is(err, errcode.Invalid):
			t.Errorf("%s: %s, %v; want a refusal", tc.name, a, err)
		case tc.want != "" && (err != nil || a.String() != tc.want):
			t.Errorf("%s: %s, %v; want %s", tc.name, a, err, tc.want)
		}
	}
}

func TestForwardedGrammar(t *testing.T) {
	t.Parallel()
	behind := resolver(t, "", "10.0.0.0/8")
	for value, ok := range map[string]bool{
		`for=192.0.2.60;proto=http;by=203.0.113.43`: true,
		`For="[2001:db8:cafe::17]:4711"`:            true,
		`for=192.0.2.43, for="[2001:db8:cafe::17]"`: true,
		`for="192.0.2.43:47011"`:                    true,
		`for="_gazonk"`:                             true,
		`for=unknown;by=_SEVKISEK`:                  true,
		`for="unknown:_port"`:                       true,
		`for=192.0.2.43;ext=!#$%;other="\\ \""`:     true,
		``:                                          true,
		`for`:                                       false,
		`for=`:                                      false,
		`=x`:                                        false,
		`for =192.0.2.43`:                           false,
		`for= 192.0.2.43`:                           false,
		`for=192.0.2.43; proto=http`:                false,
		`for=192.0.2.43;for=192.0.2.44`:             false,
		`for=192.0.2.43;FOR=192.0.2.44`:             false,
		`for=192.0.2.43:80`:                         false, // a colon must be quoted
		`for=[::1]`:                                 false,
		`for="::1"`:                                 false,
		`for="[::1"`:                                false,
		`for="[1.2.3.4]"`:                           false,
		`for="[fe80::1%eth0]"`:                      false,
		`for="1.2.3.4:x"`:                           false,
		`for=1.2.3`:                                 false,
		`for=name`:                                  false,
		`for="_"`:                                   false,
		`for="_a b"`:                                false,
		`host="a b"`:                                false,
		`host=a;proto="http`:                        false,
		`host="a\`:                                  false,
		"host=\"a\x01\"":                            false,
		`host="a"b`:                                 false,
		`host=a host=b`:                             false,
		`host=a/b`:                                  false,
		strings.Repeat(`for=192.0.2.1;host=a, `, 1_000): true,
	} {
		r := arrival{peer: proxy, host: "in", header: map[string]string{"Forwarded": value}}.request()
		if at := behind.Resolve(r); (at.Err == nil) != ok {
			t.Errorf("%.60q: %v", value, at.Err)
		}
	}
}

func TestResolvePublicURL(t *testing.T) {
	t.Parallel()
	r := resolver(t, "https://example.org/sync", "10.0.0.0/8")
	for target, want := range map[string]web.Address{
		"/sync/1.5/7?full":        {Target: "/sync/1.5/7?full", Path: "/1.5/7"},
		"/1.5/7/%7Ba%2Fb%7D/..?a": {Target: "/sync/1.5/7/%7Ba%2Fb%7D/..?a", Path: "/1.5/7/%7Ba%2Fb%7D/.."},
		"http://h/sync/x":         {Target: "/sync/x", Path: "/x"},
		"http://h":                {Target: "/sync/", Path: "/"},
		"http://h?q":              {Target: "/sync/?q", Path: "/"},
	} {
		want.Origin = web.Origin{Scheme: "https", Host: "example.org", Port: 443, Prefix: "/sync"}
		in := arrival{peer: proxy, target: target, host: "a b", header: map[string]string{"X-Forwarded-Host": "x"}}
		if got := r.Resolve(in.request()); got != want {
			t.Errorf("%s: %+v; want %+v", target, got, want)
		}
	}
	for _, target := range []string{"*", "example.org:443"} {
		if at := r.Resolve(arrival{target: target}.request()); !errcode.Is(at.Err, errcode.Invalid) {
			t.Errorf("%s: %v", target, at.Err)
		}
	}
}

// The path does not depend on the Host header.
func TestPath(t *testing.T) {
	t.Parallel()
	for public, targets := range map[string]map[string]string{
		"":                         {"/x?y": "/x", "/a%2Fb/../c": "/a%2Fb/../c", "http://h/x?y": "/x", "*": "", "": ""},
		"https://example.org/sync": {"/sync/x?y": "/x", "/x": "/x", "/sync?y": "/", "/synchro": "/synchro"},
	} {
		r := resolver(t, public)
		for target, want := range targets {
			req := &http.Request{Host: "example.org", RequestURI: target}
			if got := r.Resolve(req).Path; got != want {
				t.Errorf("%q below %q: path %q, want %q", target, public, got, want)
			}
			req.Host = ""
			if got := r.Resolve(req); got.Path != want || public == "" && got.Err == nil {
				t.Errorf("%q below %q without a host: path %q, %v", target, public, got.Path, got.Err)
			}
		}
	}
}

func TestNewResolverRefuses(t *testing.T) {
	t.Parallel()
	if _, err := web.NewResolver("example.org", nil); !errcode.Is(err, errcode.Invalid) {
		t.Error(err)
	}
	for _, proxy := range []string{"", "proxy.example", "10.0.0.0/33", "10.0.0.1:80", "::1/x", "::ffff:10.0.0.0/104"} {
		if _, err := web.NewResolver("", []string{proxy}); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %v", proxy, err)
		}
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("host", "/x", "for=10.0.0.1;host=a;proto=https, host=b", "a, b", "https", "81")
	f.Add("[::1]:80", "http://h?q", "", "", "", "")
	r := resolver(f, "", "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, host, target, forwarded, xHost, xProto, xPort string) {
		in := arrival{peer: proxy, host: host, target: target, header: map[string]string{
			"X-Forwarded-Host": xHost, "X-Forwarded-Proto": xProto, "X-Forwarded-Port": xPort,
		}}
		if forwarded != "" {
			in.header["Forwarded"] = forwarded
		}
		a := r.Resolve(in.request())
		if a.Err != nil {
			if !errcode.Is(a.Err, errcode.Invalid) {
				t.Fatalf("refused with %v", a.Err)
			}
			return
		}
		again, err := web.ParseOrigin(a.String())
		if err != nil || again.String() != a.String() && !strings.Contains(a.Host, ":") {
			t.Errorf("%s is read back as %s, %v", a, again, err)
		}
		if !strings.HasPrefix(a.Path, "/") || !strings.HasPrefix(a.Target, a.Path) {
			t.Errorf("path %q of target %q", a.Path, a.Target)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	for name, public := range map[string]string{"public URL": "https://example.org/sync", "Host": ""} {
		b.Run(name, func(b *testing.B) {
			r, in := resolver(b, public), arrival{host: "example.org:8000"}.request()
			b.ReportAllocs()
			for b.Loop() {
				if at := r.Resolve(in); at.Err != nil {
					b.Fatal(at.Err)
				}
			}
		})
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1:1234"
	type header = map[string]string
	for _, tc := range []struct {
		name, peer    string
		header        header
		want, network string // want is "" if the client is unknown
	}{
		{"IPv4", "192.0.2.7:80", nil, "192.0.2.7", "192.0.2.7"},
		{"IPv6", "[2001:db8:1:2:3:4:5:6]:80", nil, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"mapped", "[::ffff:192.0.2.7]:80", nil, "192.0.2.7", "192.0.2.7"},
		{"zone", "[fe80::1%eth0]:80", nil, "fe80::1", "fe80::/64"},
		{"no proxy of ours", "192.0.2.7:80", header{"X-Forwarded-For": "198.51.100.1", "Forwarded": "for=198.51.100.1"}, "192.0.2.7", "192.0.2.7"},
		{"proxy", proxy, header{"X-Forwarded-For": "198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"what its sender says", proxy, header{"X-Forwarded-For": "203.0.113.9, 198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"what its sender says in a line of its own", proxy, header{"X-Forwarded-For": "203.0.113.9\n198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"nonsense of its sender", proxy, header{"X-Forwarded-For": "x\" y, 198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"two proxies", proxy, header{"X-Forwarded-For": "203.0.113.9, 198.51.100.1, 10.0.0.2"}, "198.51.100.1", "198.51.100.1"},
		{"Forwarded", proxy, header{"Forwarded": `for=203.0.113.9, for="[2001:db8::1]";proto=https`}, "2001:db8::1", "2001:db8::/64"},
		{"both agree", proxy, header{"Forwarded": "for=198.51.100.1", "X-Forwarded-For": "203.0.113.9, 198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"both differ", proxy, header{"Forwarded": "for=203.0.113.9", "X-Forwarded-For": "198.51.100.1"}, "", "10.0.0.1"},
		{"Forwarded without an address", proxy, header{"Forwarded": "proto=https, host=x", "X-Forwarded-For": "198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"Forwarded is malformed", proxy, header{"Forwarded": "for=", "X-Forwarded-For": "198.51.100.1"}, "", "10.0.0.1"},
		{"unknown", proxy, header{"Forwarded": "for=unknown"}, "", "10.0.0.1"},
		{"unknown behind a proxy", proxy, header{"Forwarded": "for=_hidden, for=10.0.0.9"}, "", "10.0.0.9"},
		{"malformed", proxy, header{"Forwarded": "for="}, "", "10.0.0.1"},
		{"silent proxy", proxy, nil, "10.0.0.1", "10.0.0.1"},
		{"no address", "@", nil, "", "@"},
	} {
		a := arrival{peer: tc.peer, host: "a", header: tc.header}
		behind := resolver(t, "", "10.0.0.0/8")
		got, ok := behind.Client(a.request())
		if ok != (tc.want != "") || ok && got.String() != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.name, got, ok, tc.want)
		}
		if got := behind.Network(a.request()); got != tc.network {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.network)
		}
	}
}
