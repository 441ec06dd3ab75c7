package app_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

// put stores an object, or creates a bucket.
func put(t *testing.T, s sigv4test.Signer, address, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	s.Sign(r, sigv4test.Unsigned, time.Now())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s %s", address, resp.Status, text)
	}
}

func consoleBuckets(b *browser) {
	b.open("buckets/nodes")
	b.shows("local:1", "active", " free of ")
	b.open("buckets/accounts")
	b.try(http.StatusBadRequest, "name", "Create account", "account", hostile)
	b.submit("Create account", "account", "tester")
	shown := b.page.all("pre")
	if len(shown) != 3 {
		b.t.Fatalf("no access key in\n%s", b.page)
	}
	endpoint, key := shown[0].String(), sigv4test.Signer{AccessKeyID: shown[1].String(), Secret: shown[2].String(), Region: "us-east-1"}
	folder := "a folder/"
	put(b.t, key, endpoint+"/photos", "")
	for _, name := range []string{hostile, folder + hostile, "last"} {
		put(b.t, key, endpoint+"/photos/"+strings.ReplaceAll(url.PathEscape(name), "%2F", "/"), "body of "+name)
	}

	b.open("buckets/accounts")
	b.follow("tester")
	b.shows(key.AccessKeyID)
	b.hides(key.Secret)
	b.try(http.StatusOK, "photos", "Search", "prefix", "ph")
	b.follow("photos")
	b.shows(hostile, folder, "last")
	b.follow(folder)
	b.hides("last")
	b.follow(folder + hostile)
	b.submit("Create link", "lifetime", "24h")
	link := b.page.all("pre")[0].String()
	if status, body := do(b.t, http.MethodGet, link, ""); status != http.StatusOK || body != "body of "+folder+hostile {
		b.t.Errorf("%s: %d %s", link, status, body)
	}
	b.follow("photos")
	b.follow("last")
	page := *b
	b.follow("Download")
	if b.raw != "body of last" {
		b.t.Errorf("the download is %q", b.raw)
	}
	page.try(http.StatusBadRequest, "Nothing was changed", "Delete object", "confirm", "first")
	page.submit("Delete object", "confirm", "last")
	page.shows("Deleted object last.", hostile)
	b.open("buckets/account?account=tester")
	b.try(http.StatusConflict, "has buckets", "Delete account", "confirm", "tester")
	b.submit("Create access key")
	second := b.page.all("pre")[1].String()
	b.follow("tester")
	b.submit("Revoke access key " + second)
	b.shows("Access key " + second + " is revoked.")
	b.submit("Revoke access key " + key.AccessKeyID)
	b.open("buckets/object?account=tester&bucket=photos&object=" + url.QueryEscape(hostile))
	b.try(http.StatusConflict, "no access key", "Create link")
	b.open("buckets/accounts")
	b.submit("Create account", "account", "empty")
	b.follow("empty")
	b.submit("Delete account", "confirm", "empty")
	b.shows("Deleted account empty.")
}
