package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

type listedVersion struct {
	Marker       bool
	Key, ETag    string
	LastModified time.Time
	Size         int64
	IsLatest     bool
	VersionID    string `xml:"VersionId"`
}

func (c s3) histories(bucket string) map[string][]listedVersion {
	c.t.Helper()
	all, after := map[string][]listedVersion{}, ""
	for {
		document := c.want(http.StatusOK, http.MethodGet, "/"+bucket+"?versions&encoding-type=url&max-keys=300"+after, nil)
		decode := func(text string) string {
			if bytes.Contains(document, []byte("<EncodingType>url<")) {
				text, _ = url.QueryUnescape(text)
			}
			return text
		}
		d := xml.NewDecoder(bytes.NewReader(document))
		next := url.Values{}
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			switch name := start.Name.Local; name {
			case "Version", "DeleteMarker":
				v := listedVersion{Marker: name == "DeleteMarker"}
				if err := d.DecodeElement(&v, &start); err != nil {
					c.t.Fatal(err)
				}
				v.Key = decode(v.Key)
				v.ETag, v.LastModified = strings.Trim(v.ETag, `"`), v.LastModified.Truncate(time.Millisecond)
				if v.Marker {
					v.ETag, v.Size = "", 0
				}
				all[v.Key] = append(all[v.Key], v)
			case "NextKeyMarker", "NextVersionIdMarker":
				var text string
				if err := d.DecodeElement(&text, &start); err != nil {
					c.t.Fatal(err)
				}
				text = decode(text)
				next.Set(map[string]string{"NextKeyMarker": "key-marker", "NextVersionIdMarker": "version-id-marker"}[name], text)
			}
		}
		if next.Get("key-marker") == "" {
			return all
		}
		after = "&" + next.Encode()
	}
}

// sameVersions compares a bucket's versions by order, body, headers and tags. Version IDs differ.
func (i *importTest) sameVersions(bucket string) {
	i.Helper()
	from, here := i.source.histories(bucket), i.target.histories(bucket)
	if len(from) != len(here) {
		i.Fatalf("%d names at the source, %d here", len(from), len(here))
	}
	for key := range from {
		path := "/" + bucket + "/" + strings.NewReplacer("%2F", "/", "+", "%2B").Replace(url.PathEscape(key))
		if len(from[key]) != len(here[key]) {
			i.Errorf("%s: %v, want %v", key, here[key], from[key])
			continue
		}
		if i.byID {
			slices.SortStableFunc(from[key], func(a, b listedVersion) int {
				if a.VersionID == "null" || b.VersionID == "null" {
					return b.LastModified.Compare(a.LastModified)
				}
				return strings.Compare(b.VersionID, a.VersionID)
			})
		}
		for n, there := range from[key] {
			copied := here[key][n]
			ids := []string{"?versionId=" + there.VersionID, "?versionId=" + copied.VersionID}
			if copied.VersionID = there.VersionID; copied != there {
				i.Errorf("%s: %+v, want %+v", key, copied, there)
			}
			if there.Marker {
				continue
			}
			fromHeader, fromBody := i.source.send(http.StatusOK, http.MethodGet, path+ids[0], nil, asStored...)
			hereHeader, hereBody := i.target.send(http.StatusOK, http.MethodGet, path+ids[1], nil, asStored...)
			if !bytes.Equal(fromBody, hereBody) || !maps.Equal(stored(fromHeader), stored(hereHeader)) {
				i.Errorf("%s: %d bytes, want %d\n%v\n%v", key, len(hereBody), len(fromBody), stored(hereHeader), stored(fromHeader))
			}
			if there.VersionID == "null" && there.IsLatest { // versitygw cannot find it
				ids[0] = ""
			}
			if from, here := i.source.tags(path+ids[0]), i.target.tags(path+ids[1]); from != here {
				i.Errorf("%s: tags %s, want %s", key, here, from)
			}
		}
	}
}

func (c s3) setVersioning(bucket, status string) {
	c.t.Helper()
	c.want(http.StatusOK, http.MethodPut, "/"+bucket+"?versioning", []byte("<VersioningConfiguration><Status>"+status+"</Status></VersioningConfiguration>"))
}

func seedVersions(c s3, bucket string) {
	c.t.Helper()
	put := func(key, body string, headers ...string) {
		c.send(http.StatusOK, http.MethodPut, "/"+bucket+"/"+key, []byte(body), headers...)
	}
	del := func(key string) { c.want(http.StatusNoContent, http.MethodDelete, "/"+bucket+"/"+key, nil) }
	put("before", "null version")
	put("before2", "null version that stays current")
	c.setVersioning(bucket, "Enabled")
	put("before", "second", "X-Amz-Meta-N: 2", "X-Amz-Tagging: n=2")
	for n := range 20 {
		for v := range 1 + n%4 {
			put(fmt.Sprintf("many/%02d", n), strings.Repeat(fmt.Sprint(v), 1+v*1000), "X-Amz-Tagging: v="+fmt.Sprint(v))
			if (n+v)%5 == 0 {
				del(fmt.Sprintf("many/%02d", n))
			}
		}
	}
	put("deleted", "x")
	del("deleted")
	put("again", "x")
	del("again")
	put("again", "y", "Content-Type: text/plain")
	put("%C3%BC/a%2Bb", "1")
	put("%C3%BC/a%2Bb", "2")
	mebibytes := func(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n<<16) }
	put("large", string(mebibytes(2)))
	c.upload("/"+bucket+"/large", mebibytes(5), []byte("end"))
	put("large", "small")
}

func seedLocks(c s3, bucket string) {
	c.t.Helper()
	c.send(http.StatusOK, http.MethodPut, "/"+bucket, nil, "X-Amz-Bucket-Object-Lock-Enabled: true")
	sum := "Content-Md5: XUFAKrxLKna5cZ2REBfFkg==" // MD5 of "hello"
	until := "X-Amz-Object-Lock-Retain-Until-Date: " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, headers := range [][]string{
		nil, {"X-Amz-Object-Lock-Mode: GOVERNANCE", until, sum}, {"X-Amz-Object-Lock-Mode: COMPLIANCE", until, "X-Amz-Object-Lock-Legal-Hold: ON", sum},
		{"X-Amz-Object-Lock-Legal-Hold: ON", sum}, {"X-Amz-Object-Lock-Legal-Hold: OFF", sum},
	} {
		c.send(http.StatusOK, http.MethodPut, "/"+bucket+"/locked", []byte("hello"), headers...)
	}
	c.want(http.StatusNoContent, http.MethodDelete, "/"+bucket+"/locked", nil)
	c.want(http.StatusOK, http.MethodPut, "/"+bucket+"?object-lock", []byte("<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"+
		"<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>3</Days></DefaultRetention></Rule></ObjectLockConfiguration>"))
	c.want(http.StatusOK, http.MethodPut, "/"+bucket+"/default", []byte("hello"))
}

func (i *importTest) sameLocks(bucket string) {
	i.Helper()
	i.sameVersions(bucket)
	all := i.target.histories(bucket)
	if n := len(all["locked"]) + len(all["default"]); n != 7 {
		i.Errorf("%d versions: %+v", n, all)
	}
	if text := i.target.want(http.StatusOK, http.MethodGet, "/"+bucket+"?object-lock", nil); !bytes.Contains(text, []byte("<Mode>GOVERNANCE</Mode><Days>3</Days>")) {
		i.Errorf("object lock: %s", text)
	}
	i.target.want(http.StatusForbidden, http.MethodDelete, "/"+bucket+"/locked?versionId="+all["locked"][3].VersionID, nil)
	i.target.want(http.StatusNoContent, http.MethodDelete, "/"+bucket+"/locked?versionId="+all["locked"][1].VersionID, nil) // its legal hold was removed
}

// TestBucketsImportVersions imports versions from an unreliable server into SQLite and PostgreSQL, kills the import,
// continues it, and then imports changes.
func TestBucketsImportVersions(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			source := holdfastSource(t)
			source.want(http.StatusOK, http.MethodPut, "/photos", nil)
			seedVersions(source, "photos")
			source.want(http.StatusNoContent, http.MethodDelete, "/photos/marker-alone", nil)
			source.want(http.StatusOK, http.MethodPut, "/old", nil)
			seedVersions(source, "old")
			source.setVersioning("old", "Suspended")
			source.want(http.StatusOK, http.MethodPut, "/old/before", []byte("replaces the null version"))
			seedLocks(source, "vault")
			var environ []string
			if engine == "PostgreSQL" {
				environ = []string{"HOLDFAST_BUCKETS__DATABASE_URL=" + testdb.PostgresDatabase(t)}
			}
			reached := make(chan struct{})
			i := newImportTest(t, source, newUnreliable(source.URL, func(n int64) {
				if n == 60 {
					close(reached)
				}
			}), environ...)
			i.run(0, "would import", "--dry-run")
			i.killAt(reached)
			i.run(0, "imported")
			i.sameVersions("photos")
			i.sameVersions("old")
			for bucket, status := range map[string]string{"photos": "Enabled", "old": "Suspended"} {
				if text := i.target.want(http.StatusOK, http.MethodGet, "/"+bucket+"?versioning", nil); !bytes.Contains(text, []byte("<Status>"+status+"<")) {
					t.Errorf("versioning of %s: %s", bucket, text)
				}
			}
			i.run(0, "both sides are equal", "--stopped")
			i.sameLocks("vault")
			source.want(http.StatusNoContent, http.MethodDelete, "/vault/locked?versionId="+source.histories("vault")["locked"][1].VersionID, nil)
			i.laterVersions()
			if out := i.server.Verb("buckets", "audits", "run", "--verify"); !strings.Contains(out, "none") {
				t.Errorf("audit: %s", out)
			}
		})
	}
}

func (i *importTest) laterVersions() {
	i.Helper()
	put := func(c s3, path, body string) { c.want(http.StatusOK, http.MethodPut, path, []byte(body)) }
	tag := func(c s3, path, value string) {
		put(c, path, "<Tagging><TagSet><Tag><Key>late</Key><Value>"+value+"</Value></Tag></TagSet></Tagging>")
	}
	put(i.source, "/photos/before", "third")
	i.source.want(http.StatusNoContent, http.MethodDelete, "/photos/large", nil)
	many := i.source.histories("photos")["many/03"]
	oldest := "/photos/many/03?versionId=" + many[len(many)-1].VersionID
	i.source.want(http.StatusNoContent, http.MethodDelete, "/photos/many/03?versionId="+many[1].VersionID, nil)
	tag(i.source, "/photos/again?tagging", "current")
	tag(i.source, oldest+"&tagging", "old")
	i.source.want(http.StatusNoContent, http.MethodDelete, "/photos/before2?versionId=null", nil)
	put(i.source, "/old/before", "replaces the null version again")
	if out := i.run(0, "imported the tags of 2 objects"); !strings.Contains(out, "deleted 3 objects") || !strings.Contains(out, "imported 3 objects") {
		i.Errorf("%s", out)
	}
	i.sameVersions("photos")
	i.sameVersions("old")
	i.run(0, "both sides are equal", "--stopped")

	// Versions written on the target remain, and stay current unless the source has a later version.
	tag(i.target, "/photos/many/01?tagging", "here")
	tag(i.source, "/photos/many/01?tagging", "there")
	put(i.source, "/photos/before", "fourth")
	put(i.source, "/photos/large", "there, first")
	put(i.target, "/photos/large", "here, later")
	put(i.target, "/photos/again", "here, first")
	put(i.target, "/photos/here", "here")
	put(i.source, "/photos/again", "there, later")
	i.run(0, "kept 2 objects", "s3://photos", "--stopped")
	for key, want := range map[string]string{"large": "here, later", "again": "there, later", "here": "here", "before": "fourth"} {
		if got := string(i.target.want(http.StatusOK, http.MethodGet, "/photos/"+key, nil)); got != want {
			i.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if tags := i.target.tags("/photos/many/01"); !strings.Contains(tags, "here") {
		i.Errorf("tags changed at the target: %s", tags)
	}
	if all := i.target.histories("photos")["again"]; len(all) != 5 || all[1].Size != int64(len("here, first")) {
		i.Errorf("versions of both sides: %+v", all)
	}
	newest := i.target.histories("photos")["before"][0]
	middle := i.target.histories("photos")["before"][1]
	i.target.want(http.StatusNoContent, http.MethodDelete, "/photos/before?versionId="+middle.VersionID, nil)
	i.run(0, "1 older version", "s3://photos")
	i.target.want(http.StatusNoContent, http.MethodDelete, "/photos/before?versionId="+newest.VersionID, nil)
	i.run(0, "imported 2 objects", "s3://photos")
	i.run(0, "only each object's current version", "s3://old", "--current-only", "--to", "current")
	if n, want := len(i.target.list("current")), len(i.source.list("old")); n != want {
		i.Errorf("%d current objects, want %d", n, want)
	}
}

func TestBucketsImportVersionsFrom(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, string, ...string) binary.Bucket{"MinIO": binary.MinIO, "versitygw": binary.Versitygw} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, "photos")
			source := s3{t, &buckets.Client{URL: "http://" + b.Address, Signer: buckets.Key(b.ID, b.Secret)}}
			for begin := time.Now(); ; { // the server reports readiness too early
				a, err := source.Send(t.Context(), http.MethodPut, "/photos/first", "x")
				if err == nil && a.Status == http.StatusOK {
					break
				}
				if time.Since(begin) > binary.Bound {
					t.Fatalf("%s: %d %s, %v", name, a.Status, a.Body, err)
				}
			}
			seedVersions(source, "photos")
			i := newImportTest(t, source, nil)
			if i.byID = name == "versitygw"; !i.byID {
				seedLocks(source, "vault")
				i.run(0, "imported", "s3://vault")
				i.sameLocks("vault")
			}
			i.run(0, "imported", "s3://photos")
			i.sameVersions("photos")
			source.want(http.StatusOK, http.MethodPut, "/photos/again", []byte("z"))
			source.want(http.StatusOK, http.MethodPut, "/photos/before?tagging", []byte("<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"))
			i.run(0, "imported the tags of 1 object", "s3://photos")
			i.sameVersions("photos")
			i.run(0, "both sides are equal", "s3://photos", "--stopped")
			if all := i.target.histories("photos"); !slices.ContainsFunc(all["deleted"], func(v listedVersion) bool { return v.Marker && v.IsLatest }) {
				t.Errorf("deleted: %+v", all["deleted"])
			}
		})
	}
}
