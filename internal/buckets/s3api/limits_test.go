//test:unraced the race detector makes it ten times as slow

package s3api_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/s3api"
)

func (s *server) limited(l buckets.KeyLimits) sigv4test.Signer {
	s.t.Helper()
	return s.keyWith(buckets.KeyTerms{Limits: l})
}

func (s *server) keyWith(terms buckets.KeyTerms) sigv4test.Signer {
	s.t.Helper()
	main, err := s.options.Backend.Account(s.t.Context(), "main")
	if err != nil {
		s.t.Fatal(err)
	}
	id, secret, err := s.keys.Create(s.t.Context(), main.ID, terms)
	if err != nil {
		s.t.Fatal(err)
	}
	return sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: region}
}

// TestEveryOperationNeedsARight calls all operations with a key for each right. A key with another right, for another
// bucket or for other objects is refused. The key with the right is not.
func TestEveryOperationNeedsARight(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	keys := map[buckets.Right]sigv4test.Signer{}
	for _, r := range buckets.Rights {
		keys[r] = s.limited(buckets.KeyLimits{Rights: []buckets.Right{r}})
	}
	elsewhere := s.limited(buckets.KeyLimits{Buckets: []string{"photo", "photos-*"}})
	below := s.limited(buckets.KeyLimits{Prefix: "below/"})
	for _, r := range s3api.Routes() {
		if r.Parameter == "" && r.Method == http.MethodPost {
			continue // see TestLimitsOfForms
		}
		if r.OfObject {
			s.do("PUT", "/photos/k", hello).want(200)
		}
		if r.Right == "" {
			t.Errorf("%s needs no right", routeName(r))
		}
		if !s.refuses(elsewhere, r) {
			t.Errorf("%s in another bucket", routeName(r))
		}
		if !anyRight(r) && !s.refuses(below, r) {
			t.Errorf("%s of another object", routeName(r))
		}
		s.needsItsRights(r, keys)
		s.do("PUT", "/photos", "").want(200)
	}
}

// anyRight reports whether every key for the bucket may call the operation.
func anyRight(r s3api.Route) bool { return !slices.Contains(buckets.Rights, r.Right) }

func (s *server) refuses(by sigv4test.Signer, r s3api.Route) bool {
	s.t.Helper()
	a := s.as(by, r.Method, targetOf(r), "")
	return a.status == http.StatusForbidden || strings.Contains(a.body, "<Code>BucketAlreadyOwnedByYou<")
}

// needsItsRights first calls the operation with the keys that must be refused, because the other calls may delete the
// bucket.
func (s *server) needsItsRights(r s3api.Route, keys map[buckets.Right]sigv4test.Signer) {
	s.t.Helper()
	for right, key := range keys {
		if may := anyRight(r) || right == r.Right && r.Also == ""; !may && !s.refuses(key, r) {
			s.t.Errorf("%s with the right %s", routeName(r), right)
		}
	}
	for right, key := range keys {
		if r.Also != "" {
			key = s.limited(buckets.KeyLimits{Rights: []buckets.Right{right, r.Also}})
		}
		if may := anyRight(r) || right == r.Right; may && s.refuses(key, r) {
			s.t.Errorf("%s is refused with the right %s", routeName(r), right)
		}
	}
}

func targetOf(r s3api.Route) string {
	target := "/photos"
	if r.OfObject {
		target += "/k"
	}
	if r.Parameter != "" {
		target += "?" + r.Parameter
	}
	return target
}

func TestLimitsOfForms(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	form := func(by sigv4test.Signer, key string) answer {
		signs := *s
		signs.main = by
		return s.send(signs.form(map[string]string{"key": key}, hello))
	}
	writes := s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightWrite}, Prefix: "in/"})
	form(writes, "in/k").want(204)
	form(writes, "k").fails(403, "AccessDenied")
	form(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightRead}}), "k").fails(403, "AccessDenied")
	form(s.limited(buckets.KeyLimits{Buckets: []string{"other"}}), "k").fails(403, "AccessDenied")
	form(s.limited(buckets.KeyLimits{Networks: networks("192.0.2.0/24")}), "k").fails(403, "AccessDenied")
	form(s.keyWith(buckets.KeyTerms{Expires: buckets.At(time.Now().Add(-time.Second))}), "k").fails(403, "AccessDenied")
}

func networks(all ...string) (of []netip.Prefix) {
	for _, n := range all {
		of = append(of, netip.MustParsePrefix(n))
	}
	return of
}

func TestKeyWithPrefix(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, name := range []string{"in/a", "in/b", "out"} {
		s.do("PUT", "/photos/"+name, hello).want(200)
	}
	key := s.limited(buckets.KeyLimits{Buckets: []string{"photos"}, Prefix: "in/"})
	s.as(key, "GET", "/photos?list-type=2&prefix=in/", "").want(200).has("in/a", "in/b").hasNot("out")
	s.as(key, "GET", "/photos?list-type=2&prefix=in/b", "").want(200).has("in/b")
	for _, query := range []string{"", "?prefix=i", "?list-type=2", "?prefix=&prefix=in/", "?uploads", "?versions"} {
		s.as(key, "GET", "/photos"+query, "").fails(403, "AccessDenied")
	}
	s.as(key, "GET", "/photos?uploads&prefix=in/", "").want(200)
	s.as(key, "GET", "/photos/in/a", "").want(200)
	s.as(key, "GET", "/photos/out", "").fails(403, "AccessDenied")
	s.as(key, "GET", "/photos/absent", "").fails(403, "AccessDenied")
	s.as(key, "PUT", "/photos/in/c", "", "x-amz-copy-source: photos/out").fails(403, "AccessDenied")
	s.as(key, "PUT", "/photos/in/c", "", "x-amz-copy-source: photos/in/a").want(200)
	s.as(key, "POST", "/photos?delete", "<Delete><Object><Key>in/c</Key></Object><Object><Key>out</Key></Object><Object><Key>in/</Key></Object></Delete>").want(200).
		has("<Deleted><Key>in/c<", "<Error><Key>out</Key><Code>AccessDenied<", "<Deleted><Key>in/<")
	s.do("GET", "/photos/out", "").want(200)
	s.as(key, "PUT", "/photos?acl", "", "x-amz-acl: public-read").fails(403, "AccessDenied")
	s.as(key, "GET", "/photos?location", "").want(200)
	s.as(key, "HEAD", "/photos", "").want(200)
	s.as(key, "GET", "/photos", "", "Host: s3.test").fails(403, "AccessDenied")
	s.as(key, "GET", "/in/a", "", "Host: photos.main.s3.test").want(200)
	s.as(key, "GET", "/out", "", "Host: photos.main.s3.test").fails(403, "AccessDenied")
	// A key's limits do not affect public access.
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.as(key, "GET", "/photos/out", "").want(200)
	s.as(key, "PUT", "/photos/out", "x").fails(403, "AccessDenied")
}

func TestKeyWithBuckets(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, name := range []string{"logs-a", "logs-b", "other", "photos2"} {
		s.do("PUT", "/"+name, "").want(200)
	}
	key := s.limited(buckets.KeyLimits{Buckets: []string{"photos", "logs-*"}})
	s.as(key, "GET", "/", "").want(200).has("<Name>photos<", "<Name>logs-a<", "<Name>logs-b<").hasNot("<Name>other<").hasNot("<Name>photos2<")
	first := s.as(key, "GET", "/?max-buckets=2", "").want(200).has("logs-a", "logs-b").hasNot("photos")
	s.as(key, "GET", "/?continuation-token="+first.element("ContinuationToken"), "").want(200).has("<Name>photos<").hasNot("logs-").hasNot("other")
	// Clients create buckets before they write. A key that may use the bucket learns that it exists.
	writer := s.limited(buckets.KeyLimits{Buckets: []string{"photos", "absent"}, Rights: []buckets.Right{buckets.RightWrite}})
	s.as(writer, "PUT", "/photos", "").fails(409, "BucketAlreadyOwnedByYou")
	s.as(writer, "PUT", "/main:photos", "", "x-amz-acl: public-read").fails(409, "BucketAlreadyOwnedByYou")
	for _, target := range []string{"/absent", "/other", "/fresh", "/other:photos", "/Invalid"} {
		s.as(writer, "PUT", target, "").fails(403, "AccessDenied")
	}
	s.anonymous("GET", "/photos", "").fails(403, "AccessDenied")
	s.as(s.limited(buckets.KeyLimits{Buckets: []string{"logs-*"}}), "GET", "/", "").want(200).has("logs-a", "logs-b").hasNot("photos").hasNot("other")
	s.as(key, "GET", "/?prefix=o", "").want(200).hasNot("<Name>")
	s.as(key, "PUT", "/logs-c", "").want(200)
	s.as(key, "PUT", "/fresh", "").fails(403, "AccessDenied")
	s.as(key, "DELETE", "/logs-c", "").want(204)
	s.as(key, "GET", "/logs-c", "").fails(404, "NoSuchBucket")
	// The key does not learn which other buckets exist.
	for _, target := range []string{"/other", "/absent", "/main:other", "/main:absent"} {
		s.as(key, "GET", target, "").fails(403, "AccessDenied")
		s.as(key, "PUT", target+"/k", hello).fails(403, "AccessDenied")
		s.as(key, "DELETE", target+"/k", "").fails(403, "AccessDenied")
	}
	s.do("PUT", "/other/k", hello).want(200)
	s.as(key, "PUT", "/photos/k", "", "x-amz-copy-source: other/k").fails(403, "AccessDenied")
	s.as(key, "PUT", "/photos/k", hello).want(200)
}

func TestExpiredKey(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	gone := s.keyWith(buckets.KeyTerms{Expires: buckets.At(time.Now())})
	s.as(gone, "GET", "/photos", "").fails(403, "AccessDenied").has("expired")
	s.as(gone, "GET", "/", "").fails(403, "AccessDenied")
	r := s.request("GET", "/photos", "")
	gone.Presign(r, time.Hour, time.Now())
	s.send(r).fails(403, "AccessDenied").has("expired")
	wrong := gone
	wrong.Secret = "guess" // only the key's owner learns that the key has expired
	s.as(wrong, "GET", "/photos", "").fails(403, "SignatureDoesNotMatch")
	s.as(s.keyWith(buckets.KeyTerms{Expires: buckets.At(time.Now().Add(time.Hour))}), "GET", "/photos", "").want(200)
}

func TestKeyWithNetworks(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.as(s.limited(buckets.KeyLimits{Networks: networks("192.0.2.0/24", "2001:db8::/32")}), "GET", "/photos", "").fails(403, "AccessDenied").has("network")
	s.as(s.limited(buckets.KeyLimits{Networks: networks("192.0.2.0/24", "127.0.0.0/8", "::1/128")}), "GET", "/photos", "").want(200)
	s.as(s.limited(buckets.KeyLimits{Networks: networks("192.0.2.0/24")}), "GET", "/photos", "", "X-Forwarded-For: 192.0.2.1").fails(403, "AccessDenied")
}

// TestChangedKey checks that a process uses a key's new terms immediately, and other processes within a second.
func TestChangedKey(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	key := s.limited(buckets.KeyLimits{})
	s.as(key, "PUT", "/photos/k", hello).want(200)
	change := func(change func(t *buckets.KeyTerms)) {
		if _, err := s.keys.Change(t.Context(), key.AccessKeyID, func(t buckets.KeyTerms) (buckets.KeyTerms, error) { change(&t); return t, nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(func(t *buckets.KeyTerms) { t.Limits.Rights = []buckets.Right{buckets.RightRead} })
	s.as(key, "PUT", "/photos/k", hello).fails(403, "AccessDenied")
	s.as(key, "GET", "/photos/k", "").want(200)
	change(func(t *buckets.KeyTerms) { t.Limits.Rights = nil })
	s.as(key, "PUT", "/photos/k", hello).want(200)
	if buckets.KeyDelay > time.Second {
		t.Errorf("other processes use a changed key for %v", buckets.KeyDelay)
	}
}

func TestKeyLimitsCheck(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]buckets.KeyLimits{
		"bucket":              {Buckets: []string{"No"}},
		"pattern":             {Buckets: []string{"a*b*"}},
		"prefix":              {Prefix: "\x00"},
		"right":               {Rights: []buckets.Right{"admin"}},
		"prefix and manage":   {Prefix: "a", Rights: []buckets.Right{buckets.RightManage}},
		"prefix and policy":   {Prefix: "a", Rights: []buckets.Right{buckets.RightPolicy}},
		"network":             {Networks: []netip.Prefix{{}}},
		"more than fits":      {Buckets: slices.Repeat([]string{strings.Repeat("a", 60)}, 100)},
		"more than fits here": {Prefix: strings.Repeat("a", 1025)},
	} {
		if l.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, text := range []string{"", "x", `{"newer":1}`, `{"rights":7}`} {
		if l := buckets.ParseKeyLimits(text); l.AllowBucket("photos") || l.Allow(buckets.RightRead, "photos", "k") || l.Allow(buckets.RightManage, "photos", "") {
			t.Errorf("%q allows something", text)
		}
	}
	full := buckets.KeyLimits{Buckets: []string{"*", "a-*"}, Prefix: "ü", Rights: buckets.Rights[:4], Networks: networks("::/0")}
	if back := buckets.ParseKeyLimits(full.Text()); back.Text() != full.Text() || full.Check() != nil {
		t.Errorf("%+v, %v", back, full.Check())
	}
}
