package hawk

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/internal/errcode"
)

const specKey = "werxhqb98rpaxn39848xrunpaw3489ruxnpa98w4rxn"

var (
	specRequest = Request{Method: "GET", Target: "/resource/1?b=1&a=2", Host: "example.com", Port: 8000}
	specHeader  = Header{ID: "dh37fgj492je", TS: 1353832234, Nonce: "j4h3g2", Ext: "some-app-ext-data"}
	specTime    = time.Unix(1353832234, 0)
)

const year = 52 * 7 * 24 * time.Hour

// The first two vectors are from the specification. Python's hmac and hashlib computed the others.
func TestMACVectors(t *testing.T) {
	t.Parallel()
	posted := specHeader
	posted.Hash = PayloadHash("text/plain", []byte("Thank you for flying Hawk"))
	for _, c := range []struct {
		name   string
		header Header
		req    Request
		want   string
	}{
		{"specification, GET", specHeader, specRequest, "6R4rV5iE+NPoym+WwjeHzjAGXUtLNIxmo1vpMofpLAE="},
		{"specification, POST with hash", posted, Request{"POST", "/resource/1?b=1&a=2", "example.com", 8000},
			"aSe1DERmZuRl3pI36/9BdZmnErTw3sNzOOAUlfeKjVw="},
		{"escapes stay as sent", Header{TS: 1790000000, Nonce: "aGVsbG8="},
			Request{"PUT", "/1.5/42/storage/passwords/%7Bguid%7D", "sync.example.org", 443},
			"YmsDNLFuy1f480e+EEwZ4aouAxdRKyQh5hO7kaUaL2I="},
		{"case of method and host", specHeader, Request{"get", "/resource/1?b=1&a=2", "EXAMPLE.com", 8000},
			"6R4rV5iE+NPoym+WwjeHzjAGXUtLNIxmo1vpMofpLAE="},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.header.Sign(specKey, c.req).MAC; got != c.want {
				t.Errorf("MAC %s, want %s", got, c.want)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	signed := specHeader.Sign(specKey, specRequest)
	header := func(change func(*Header)) Header { h := signed; change(&h); return h }
	request := func(change func(*Request)) Request { r := specRequest; change(&r); return r }
	for _, c := range []struct {
		name string
		key  string
		h    Header
		r    Request
		now  time.Time
		want error
	}{
		{"right", specKey, signed, specRequest, specTime, nil},
		{"client's clock behind by the bound", specKey, signed, specRequest, specTime.Add(year), nil},
		{"client's clock ahead by the bound", specKey, signed, specRequest, specTime.Add(-year), nil},
		{"behind by more", specKey, signed, specRequest, specTime.Add(year + time.Second), ErrSkew},
		{"ahead by more", specKey, signed, specRequest, specTime.Add(-year - time.Second), ErrSkew},
		{"ages apart", specKey, Header{TS: 999999999999}.Sign(specKey, specRequest), specRequest, specTime, ErrSkew},
		{"another key", specKey + "x", signed, specRequest, specTime, ErrMAC},
		{"no key", "", signed, specRequest, specTime, ErrMAC},
		{"no MAC", specKey, specHeader, specRequest, specTime, ErrMAC},
		{"wrong MAC and clock", specKey, specHeader, specRequest, time.Time{}, ErrMAC},
		{"another ts", specKey, header(func(h *Header) { h.TS++ }), specRequest, specTime, ErrMAC},
		{"another nonce", specKey, header(func(h *Header) { h.Nonce = "x" }), specRequest, specTime, ErrMAC},
		{"another ext", specKey, header(func(h *Header) { h.Ext = "" }), specRequest, specTime, ErrMAC},
		{"a hash added", specKey, header(func(h *Header) { h.Hash = someHash }), specRequest, specTime, ErrMAC},
		{"another method", specKey, signed, request(func(r *Request) { r.Method = "PUT" }), specTime, ErrMAC},
		{"another path", specKey, signed, request(func(r *Request) { r.Target = "/resource/2?b=1&a=2" }), specTime, ErrMAC},
		{"query in another order", specKey, signed, request(func(r *Request) { r.Target = "/resource/1?a=2&b=1" }), specTime, ErrMAC},
		{"another host", specKey, signed, request(func(r *Request) { r.Host = "example.org" }), specTime, ErrMAC},
		{"another port", specKey, signed, request(func(r *Request) { r.Port = 80 }), specTime, ErrMAC},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.h.Verify(c.key, c.r, c.now, year)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err != nil && !errcode.Is(err, errcode.Denied) {
				t.Errorf("%v is not coded as denied", err)
			}
		})
	}
}

func TestSignHTTPIsVerifiedByAServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url, host string
		want      Request
	}{
		{"http://127.0.0.1:8000/1.5/7/info/collections", "", Request{"DELETE", "/1.5/7/info/collections", "127.0.0.1", 8000}},
		{"https://Sync.Example.org/1.5/7?x=%7Ba%20b", "", Request{"DELETE", "/1.5/7?x=%7Ba%20b", "sync.example.org", 443}},
		{"http://127.0.0.1:8000/1.5/7", "sync.example.org", Request{"DELETE", "/1.5/7", "sync.example.org", 80}},
		{"http://[::1]:8000/1.5/%7Ba%2Fb%7D", "", Request{"DELETE", "/1.5/%7Ba%2Fb%7D", "::1", 8000}},
	} {
		r := httptest.NewRequest("DELETE", c.url, nil)
		r.Host = c.host
		if err := SignHTTP(r, "some-id", specKey, specTime, ""); err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		h, err := ParseHeader(r.Header.Get("Authorization"))
		if err != nil {
			t.Errorf("%s: parse the header: %v", c.url, err)
		}
		if err := h.Verify(specKey, c.want, specTime, 0); err != nil || h.ID != "some-id" {
			t.Errorf("%s: %+v: %v", c.url, h, err)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Host, r.URL.Host = "", "a b"
	if err := SignHTTP(r, "i", "k", specTime, ""); !errors.Is(err, ErrMalformed) || r.Header.Get("Authorization") != "" {
		t.Errorf("a host with a blank: %v", err)
	}
}

func TestHostPort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		authority, scheme, host string
		port                    uint16
	}{
		{"example.com", "http", "example.com", 80},
		{"example.com", "https", "example.com", 443},
		{"example.com", "", "example.com", 80},
		{"Example.COM:8000", "https", "example.com", 8000},
		{"example.com:", "https", "example.com", 443},
		{"127.0.0.1:5000", "http", "127.0.0.1", 5000},
		{"[::1]", "http", "::1", 80},
		{"[2001:DB8::1]:8443", "https", "2001:db8::1", 8443},
	} {
		if host, port, err := HostPort(c.authority, c.scheme); host != c.host || port != c.port || err != nil {
			t.Errorf("%s, %s: got %s, %d, %v", c.authority, c.scheme, host, port, err)
		}
	}
	for _, bad := range []string{"", ":8000", "a b", "a\nb", "a:b", "a:99999", "[::1", "::1", "[x:y]", "user@host", "a/b", `a"`, "ä.example"} {
		if host, port, err := HostPort(bad, "http"); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %q, %d, %v; want ErrMalformed", bad, host, port, err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	b.ReportAllocs()
	value := specHeader.Sign(specKey, specRequest).String()
	for b.Loop() {
		h, err := ParseHeader(value)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Verify(specKey, specRequest, specTime, year); err != nil {
			b.Fatal(err)
		}
	}
}
