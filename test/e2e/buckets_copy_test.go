package e2e

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// TestBucketsCopy moves buckets with versions, locks, rules, policies, quotas and limited keys to PostgreSQL and back, and
// leaves the bodies in place. Both servers must return the same response to every request. Audits on the source, or on a
// target with a partial copy, must not remove bodies that only the other database references.
func TestBucketsCopy(t *testing.T) {
	t.Parallel()
	disks, data := t.TempDir(), t.TempDir()
	s := binary.Start(t, data, bucketsOn(t, "sqlite:"+filepath.Join(data, "buckets.db"), disks)...)
	c := newS3(t, s, s.S3URL())
	c.fillVersions()
	for _, args := range [][]string{
		{"quotas", "set", "main", "--bytes", "1GiB", "--objects", "1000"}, {"quotas", "set", "main", "kept", "--bytes", "100MiB", "--objects", "16"},
		{"keys", "create", "main", "--name", "reader", "--bucket", "kept", "--prefix", "a", "--right", "read", "--network", "10.0.0.0/8"},
	} {
		s.Verb(append([]string{"buckets"}, args...)...)
	}
	want := c.dump(s)
	for _, part := range []string{"<DeleteMarker>", "<VersionId>null</VersionId>", "COMPLIANCE", "GOVERNANCE", "Legal-Hold: ON", "<Key>unfinished</Key>", `"reader"`, "<NoncurrentDays>", "Suspended"} {
		if !strings.Contains(want, part) {
			t.Fatalf("the source has no %q", part)
		}
	}
	url := testdb.PostgresDatabase(t)
	var onPostgres *binary.Server
	for _, to := range []string{url, "sqlite:" + filepath.Join(testdb.SQLite(t), "copy.db")} {
		if out := s.Verb("copy", "buckets", "--to", to); !strings.Contains(out, "[buckets]\ndatabase_url = ") {
			t.Errorf("copy: %s", out)
		}
		if got := c.dump(s); got != want {
			t.Errorf("the source after the copy: %s", difference(got, want))
		}
		if got := string(c.want(http.StatusServiceUnavailable, http.MethodPut, "/suspended/x", []byte("x"))); !strings.Contains(got, "<Code>ServiceUnavailable</Code>") {
			t.Errorf("a write to the source: %s", got)
		}
		wantRefusal(t, s, "the service is read-only: retry later; holdfast read-only list shows by whom", "buckets", "audits", "run", "--repair")
		wantRefusal(t, s, "the service is read-only: retry later; holdfast read-only list shows by whom", "buckets", "nodes", "drain", "east:1", "--fewer-copies")
		s = binary.Start(t, t.TempDir(), bucketsOn(t, to, disks)...)
		if to == url {
			onPostgres = s
		}
		c = c.at(s.S3URL())
		if got := c.dump(s); got != want {
			t.Errorf("%s: %s", to, difference(got, want))
		}
		if r := binary.Run(t, s.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
			t.Errorf("audit: %+v", r)
		}
	}
	c.lockedStay()
	c.want(http.StatusForbidden, http.MethodPut, "/kept/more", []byte("x"))
	testdb.Script(t, url, `UPDATE copy_state SET state = '{"id":"x","target":true}'`)
	wantRefusal(t, onPostgres, "only part of a copy", "buckets", "audits", "run", "--repair")
	wantRefusal(t, onPostgres, "only part of a copy", "sweep")
}

func wantRefusal(t *testing.T, s *binary.Server, want string, args ...string) {
	t.Helper()
	if r := binary.Run(t, s.Env, args...); r.Status != 1 || !strings.Contains(r.Stderr, want) {
		t.Errorf("%v: status %d, %s; want %q", args, r.Status, r.Stderr, want)
	}
}

func (c s3) lockedStay() {
	c.t.Helper()
	for _, v := range c.versions("locked") {
		if a, err := c.Send(c.t.Context(), http.MethodDelete, "/locked/"+v.Key+"?versionId="+v.VersionID, ""); err != nil || a.Status != http.StatusForbidden {
			c.t.Errorf("deletion of a locked version: %d %s %v", a.Status, a.Body, err)
		}
	}
}

func (c s3) fillVersions() {
	c.t.Helper()
	put := func(path, body string, headers ...string) string {
		c.t.Helper()
		a, err := c.Send(c.t.Context(), http.MethodPut, path, body, headers...)
		if err != nil || a.Status != http.StatusOK {
			c.t.Fatalf("PUT %s: %d %s %v", path, a.Status, a.Body, err)
		}
		return a.Header.Get("X-Amz-Version-Id")
	}
	large := strings.Repeat("large", 10_000)
	for _, bucket := range []string{"kept", "suspended"} {
		put("/"+bucket, "")
		put("/"+bucket+"/before", "the null version")
		put("/"+bucket+"?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
		for i, name := range []string{"a", "b/c", "before", "é +"} {
			path := "/" + bucket + "/" + buckets.Escape(name)
			put(path, "small", "X-Amz-Meta-N: "+fmt.Sprint(i), "X-Amz-Tagging: n="+fmt.Sprint(i), "Content-Type: text/plain", "Cache-Control: no-store")
			put(path, large+name)
			c.multipart(path, []byte(large+name+"parts"))
			if i%2 == 0 {
				c.want(http.StatusNoContent, http.MethodDelete, path, nil)
			}
		}
		drop := put("/"+bucket+"/dropped", large+"dropped")
		put("/"+bucket+"/dropped", "now")
		c.want(http.StatusNoContent, http.MethodDelete, "/"+bucket+"/dropped?versionId="+drop, nil)
	}
	put("/suspended?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
	put("/suspended/before", "another null version")
	c.want(http.StatusNoContent, http.MethodDelete, "/suspended/b/c", nil)
	put("/kept?lifecycle", `<LifecycleConfiguration><Rule><ID>old</ID><Filter><And><Prefix>a</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter><Status>Enabled</Status>
		<Expiration><Days>30</Days></Expiration><NoncurrentVersionExpiration><NoncurrentDays>9</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>`)
	c.want(http.StatusNoContent, http.MethodPut, "/kept?policy", []byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::kept/secret*"}]}`))
	put("/kept?cors", `<CORSConfiguration><CORSRule><AllowedOrigin>https://example.org</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>`)
	c.want(http.StatusOK, http.MethodPost, "/kept/unfinished?uploads", nil)
	c.fillLocked(put)
}

func (c s3) fillLocked(put func(path, body string, headers ...string) string) {
	c.t.Helper()
	until := "X-Amz-Object-Lock-Retain-Until-Date: " + time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339)
	put("/locked", "", "X-Amz-Bucket-Object-Lock-Enabled: true")
	put("/locked?object-lock", `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>3</Days></DefaultRetention></Rule></ObjectLockConfiguration>`)
	for _, lock := range [][]string{nil, {"X-Amz-Object-Lock-Mode: COMPLIANCE", until}, {"X-Amz-Object-Lock-Legal-Hold: ON"}} {
		put("/locked/a", strings.Repeat("locked", 1000), append(lock, "X-Amz-Checksum-Crc32: "+crc32OfLocked)...)
	}
}

// crc32OfLocked is the checksum for 1,000 times "locked".
const crc32OfLocked = "42lxbA=="

type version struct {
	XMLName        xml.Name
	Key, VersionID string
}

func (c s3) versions(bucket string) (all []version) {
	c.t.Helper()
	var list struct {
		Entries []struct {
			XMLName   xml.Name
			Key       string
			VersionID string `xml:"VersionId"`
		} `xml:",any"`
	}
	if err := xml.Unmarshal(c.want(http.StatusOK, http.MethodGet, "/"+bucket+"?versions", nil), &list); err != nil {
		c.t.Fatal(err)
	}
	for _, e := range list.Entries {
		if e.XMLName.Local == "Version" || e.XMLName.Local == "DeleteMarker" {
			all = append(all, version{e.XMLName, e.Key, e.VersionID})
		}
	}
	return all
}

var requestID = regexp.MustCompile(`<RequestId>[^<]*</RequestId>|<HostId>[^<]*</HostId>`)

// dump returns all buckets with their settings, and the output that commands print about them.
func (c s3) dump(s *binary.Server) string {
	c.t.Helper()
	var all strings.Builder
	ask := func(target string) {
		c.t.Helper()
		a, err := c.Send(c.t.Context(), http.MethodGet, target, "")
		if err != nil || a.Status >= http.StatusInternalServerError {
			c.t.Errorf("GET %s: %d %s %v", target, a.Status, a.Body, err)
		}
		var headers []string
		for name, values := range a.Header {
			if name != "Date" && name != "X-Amz-Request-Id" && name != "X-Amz-Id-2" && name != "X-Request-Id" {
				headers = append(headers, name+": "+strings.Join(values, ", "))
			}
		}
		slices.Sort(headers)
		fmt.Fprintf(&all, "GET %s\n%d\n%s\n%s\n\n", target, a.Status, strings.Join(headers, "\n"), requestID.ReplaceAllString(a.Body, ""))
	}
	for _, bucket := range []string{"kept", "suspended", "locked"} {
		for _, sub := range []string{
			"?versioning", "?lifecycle", "?policy", "?policyStatus", "?cors", "?object-lock", "?publicAccessBlock", "?ownershipControls", "?acl", "?tagging", "?location",
			"?list-type=2&fetch-owner=true", "?list-type=2&delimiter=%2F", "?versions", "?versions&delimiter=%2F", "?versions&max-keys=3", "?uploads",
		} {
			ask("/" + bucket + sub)
		}
		for _, v := range c.versions(bucket) {
			path := "/" + bucket + "/" + strings.ReplaceAll(buckets.Escape(v.Key), "%2F", "/")
			ask(path)
			for _, sub := range []string{"?", "?tagging&", "?attributes&", "?legal-hold&", "?retention&"} {
				ask(path + sub + "versionId=" + v.VersionID)
			}
		}
		fmt.Fprintln(&all, s.Verb("buckets", "buckets", "show", "main", bucket, "--json"))
		fmt.Fprintln(&all, s.Verb("buckets", "quotas", "show", "main", bucket, "--json"))
	}
	fmt.Fprintln(&all, s.Verb("buckets", "accounts", "show", "main", "--json"), s.Verb("buckets", "keys", "list", "main", "--json", "--secrets"))
	return all.String()
}

func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %.300q, expected %.300q, after %.300q", i, a[i], b[i], strings.Join(a[max(0, i-6):i], "\n"))
		}
	}
	return fmt.Sprintf("%d lines, expected %d", len(a), len(b))
}
