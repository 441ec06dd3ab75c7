package s3api_test

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/testdb"
)

// Ways to copy an object. Each sends new values for all properties, and then none.
const (
	wayCopy    = iota // to another key, with the directives COPY
	wayReplace        // to another key, with the directives REPLACE
	wayRestore        // an old version onto its key
	wayItself         // onto itself without versions, with the directives REPLACE
	wayPart           // into an upload's part
	ways
)

var wayNames = [ways]string{"copy", "replace", "restore", "itself", "part"}

// Where a copied property's value is from.
const (
	ofSource  = "source"  // the source's
	ofRequest = "request" // the request's
	absent    = "none"    // the zero value
	fresh     = "fresh"   // another than the source's
	fromBody  = "bytes"   // computed from the body
	inside    = "server"  // where the server keeps the body, which clients do not see
)

// copiedProperties says where a copy's properties are from, by way, according to
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html and
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/copy-object.html: metadata and tags by their directives; storage
// class, redirect and lock from the request; a checksum with the source's algorithm, computed for the whole object. A new
// upload takes only the properties in CreateMultipartUpload. A copy onto itself keeps the body. ACLs belong to buckets here.
var copiedProperties = map[string][ways]string{
	"Name": {ofRequest, ofRequest, ofSource, ofSource, ofRequest}, "Created": {fresh, fresh, fresh, ofSource, fresh}, "Modified": {fresh, fresh, fresh, fresh, fresh},
	"Creator": {ofRequest, ofRequest, ofRequest, ofSource, ofRequest},

	"ContentType":                             {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/cache-control":                   {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/content-disposition":             {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/content-encoding":                {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/content-language":                {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/expires":                         {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/m-a":                             {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Headers/x-amz-website-redirect-location": {ofRequest, ofRequest, ofRequest, ofRequest, ofRequest},
	"Tags":  {ofSource, ofRequest, ofSource, ofRequest, ofRequest},
	"Class": {ofRequest, ofRequest, ofRequest, ofRequest, ofRequest},
	"Lock":  {ofRequest, ofRequest, ofRequest, absent, ofRequest},
	"Roles": {absent, absent, absent, ofSource, absent}, // the native API's access rights, like an ACL
	"Extra": {ofSource, ofSource, ofSource, ofSource, absent},

	"ID": {fresh, fresh, fresh, ofSource, fresh}, "Length": {fromBody, fromBody, fromBody, fromBody, fromBody}, "MD5": {fromBody, fromBody, fromBody, ofSource, absent},
	"Checksum": {fromBody, fromBody, fromBody, ofSource, "upload"},
	"ETag":     {absent, absent, absent, ofSource, "upload"}, "Upload": {absent, absent, absent, ofSource, fresh}, "Parts": {absent, absent, absent, ofSource, "upload"},
	"Version": {fresh, fresh, fresh, absent, fresh},

	"Imported": {absent, absent, absent, ofSource, absent}, "ImportedTags": {absent, absent, absent, ofSource, absent}, "Restored": {absent, absent, absent, absent, absent},
	"Inline": {inside, inside, inside, inside, inside}, "Sharks": {inside, inside, inside, inside, inside},
	"Frames": {inside, inside, inside, inside, inside}, "CRC32C": {inside, inside, inside, inside, inside},
}

// properties returns an object's fields, and each header.
func properties(o buckets.Object) map[string]any {
	all := map[string]any{}
	v := reflect.ValueOf(o)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.Anonymous && f.Name != "Headers" {
			all[f.Name] = v.FieldByIndex(f.Index).Interface()
		}
	}
	for name, value := range o.Headers {
		all["Headers/"+name] = value
	}
	return all
}

const copiedBody = "a body that is longer than a row"

// objectHeaders returns headers whose values all contain n.
func objectHeaders(n string) []string {
	return []string{
		"Content-Type: text/" + n, "Cache-Control: max-age=" + n, "Content-Disposition: attachment; filename=" + n, "Content-Encoding: e" + n, "Content-Language: l" + n,
		"Expires: e" + n, "x-amz-meta-a: v" + n, "x-amz-website-redirect-location: /" + n,
	}
}

// copying tests one engine.
type copying struct {
	*server
	owner buckets.AccountID
	until time.Time

	silent bool // copies send no properties, so that those of the request are S3's defaults
}

func (c *copying) bucket(name string) buckets.Bucket {
	c.t.Helper()
	b, err := c.options.Backend.Bucket(c.t.Context(), c.owner, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *copying) object(bucket, key string) buckets.Object {
	c.t.Helper()
	o, err := c.options.Backend.Get(c.t.Context(), c.owner, c.bucket(bucket).ID, key)
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

// summedText is a body with its checksums.
type summedText struct{ *strings.Reader }

func (summedText) Sums() buckets.Sums {
	sum := md5.Sum([]byte(copiedBody))
	return buckets.Sums{MD5: sum[:], Checksum: buckets.Checksum{Algorithm: "SHA256", Value: sha256Of(copiedBody)}}
}

// single writes an object with every property, except upload properties.
func (c *copying) single(bucket, key string) {
	c.t.Helper()
	b := c.bucket(bucket)
	o := buckets.Object{
		Name: key, Creator: c.accountID("other"), ContentType: "text/1", Roles: []string{buckets.NewUUID()}, Headers: map[string]string{
			"cache-control": "max-age=1", "content-disposition": "attachment; filename=1", "content-encoding": "e1", "content-language": "l1", "expires": "e1",
			"m-a": "v1", "x-amz-website-redirect-location": "/1",
		},
		Properties: buckets.Properties{
			Tags: map[string]string{"t": "1"}, Class: "STANDARD_IA", Imported: buckets.At(time.Now().Add(-time.Hour)), ImportedTags: buckets.TagsSum(map[string]string{"t": "1"}),
			Extra: json.RawMessage(`{"own":1}`),
		},
	}
	if b.Lock.Enabled {
		o.Lock = buckets.Lock{Mode: buckets.Governance, Until: buckets.At(c.until.Add(time.Hour)), Hold: buckets.HoldOn}
	}
	ctx := context.WithoutCancel(c.t.Context())
	if _, err := c.s3.Service.PutObject(ctx, c.owner, b.BucketRef, buckets.PutRequest{Object: o, Size: int64(len(copiedBody))}, summedText{strings.NewReader(copiedBody)}); err != nil {
		c.t.Fatal(err)
	}
}

// multipart writes an object by an upload.
func (c *copying) multipart(bucket, key string) {
	c.t.Helper()
	target := "/" + bucket + "/" + key
	id := c.upload(target, append(objectHeaders("1"), "x-amz-tagging: t=1", "x-amz-storage-class: STANDARD_IA", "x-amz-checksum-algorithm: SHA256")...)
	c.complete(target, id, c.part(target, id, "1", copiedBody)).want(200)
}

// requested are the values that each copy sends, or the defaults.
func (c *copying) requested(key string) map[string]any {
	if c.silent {
		return properties(buckets.Object{Name: key, Creator: c.owner, ContentType: "binary/octet-stream"})
	}
	return properties(buckets.Object{
		Name: key, Creator: c.owner, ContentType: "text/2", Headers: map[string]string{
			"cache-control": "max-age=2", "content-disposition": "attachment; filename=2", "content-encoding": "e2", "content-language": "l2", "expires": "e2",
			"m-a": "v2", "x-amz-website-redirect-location": "/2",
		},
		Properties: buckets.Properties{
			Tags: map[string]string{"t": "2"}, Class: "GLACIER_IR",
			Lock: buckets.Lock{Mode: buckets.Governance, Until: buckets.At(c.until), Hold: buckets.HoldOff},
		},
	})
}

// make writes the source for a way, copies it, and returns both.
func (c *copying) make(way int, write func(bucket, key string)) (from, to buckets.Object) {
	c.t.Helper()
	bucket, key, kept := "vault", wayNames[way], "source"
	sent := append(objectHeaders("2"), "x-amz-tagging: t=2", "x-amz-storage-class: GLACIER_IR")
	if way != wayItself {
		sent = append(sent, "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+c.until.Format(time.RFC3339), "x-amz-object-lock-legal-hold: OFF")
	}
	if c.silent {
		sent = nil
	}
	if way == wayItself {
		bucket = "photos"
	}
	if way == wayItself || way == wayRestore {
		kept = key
	}
	write(bucket, kept)
	from = c.object(bucket, kept)
	target, copySource := "/"+bucket+"/"+key, "x-amz-copy-source: "+bucket+"/"+kept
	switch way {
	case wayPart:
		id := c.upload(target, append(sent, "x-amz-checksum-algorithm: CRC32C")...)
		part := c.do("PUT", target+"?partNumber=1&uploadId="+id, "", copySource).want(200)
		c.complete(target, id, "<Part><PartNumber>1</PartNumber><ETag>"+part.element("ETag")+"</ETag></Part>").want(200)
	case wayRestore:
		c.do("PUT", target, hello).want(200)
		copySource += "?versionId=" + string(from.VersionID())
		c.do("PUT", target, "", append(sent, copySource)...).want(200)
	case wayCopy:
		c.do("PUT", target, "", append(sent, copySource)...).want(200)
	default:
		c.do("PUT", target, "", append(sent, copySource, "x-amz-metadata-directive: REPLACE", "x-amz-tagging-directive: REPLACE")...).want(200)
	}
	return from, c.object(bucket, key)
}

// check copies an object and compares all properties. It notes which properties the source had.
func (c *copying) check(way int, write func(bucket, key string), had map[string]bool) {
	c.t.Helper()
	from, to := c.make(way, write)
	got, was := properties(to), properties(from)
	for name, value := range was {
		had[name] = had[name] || !reflect.ValueOf(&value).Elem().Elem().IsZero()
	}
	for name := range got {
		if _, ok := copiedProperties[name]; !ok {
			c.t.Errorf("add a row for %s", name)
		}
	}
	for name, want := range copiedProperties {
		if why := c.wrong(want[way], got[name], was[name], c.requested(to.Name)[name], name); why != "" {
			c.t.Errorf("%s (silent: %v), %s: %v, %s (source %v)", wayNames[way], c.silent, name, got[name], why, was[name])
		}
	}
}

// TestCopiedProperties walks the fields in buckets.Object. A new field needs a row in copiedProperties.
func TestCopiedProperties(t *testing.T) {
	testdb.CheckOnly(t, "it copies every kind of object on every engine")
	t.Parallel()
	onEngines(t, func(t *testing.T, s *server) {
		t.Helper()
		c := &copying{server: s, owner: s.accountID("main"), until: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
		s.do("PUT", "/photos", "").want(200)
		s.do("PUT", "/vault", "", "x-amz-bucket-object-lock-enabled: true").want(200)
		had := map[string]bool{} // properties that a source had
		for _, write := range []func(bucket, key string){c.single, c.multipart} {
			for way := range ways {
				c.silent = false
				c.check(way, write, had)
				c.silent = true
				c.check(way, write, had)
			}
		}
		c.checksums()
		for name := range copiedProperties {
			if !had[name] && !slices.Contains([]string{"Restored", "Inline", "Frames", "CRC32C"}, name) {
				t.Errorf("no source has %s", name)
			}
		}
	})
}

// checksums copies with each checksum algorithm. Onto itself, the body is written again if a checksum is to be computed.
func (c *copying) checksums() {
	c.t.Helper()
	c.do("PUT", "/photos/summed", copiedBody).want(200)
	for i := range checksum.NumAlgorithms {
		a := checksum.Algorithm(i)
		for _, key := range []string{"summed", "summed-copy"} {
			c.do("PUT", "/photos/"+key, "", "x-amz-copy-source: photos/summed", "x-amz-metadata-directive: REPLACE", "x-amz-checksum-algorithm: "+a.String()).want(200).has("<Checksum" + a.String() + ">")
			if o := c.object("photos", key); o.Checksum.Algorithm != a.String() {
				c.t.Errorf("copy to %s with %s: checksum %v", key, a, o.Checksum)
			}
		}
	}
}

// wrong returns why a copied property is wrong, or "".
func (c *copying) wrong(want string, got, was, sent any, name string) string {
	isZero := got == nil || reflect.ValueOf(got).IsZero()
	ok := true
	switch want {
	case ofSource:
		ok = reflect.DeepEqual(got, was)
	case ofRequest:
		isDefault := c.silent && (sent == nil || reflect.ValueOf(sent).IsZero())
		ok = isDefault && isZero || reflect.DeepEqual(got, sent) && (name == "Creator" || !reflect.DeepEqual(got, was))
	case absent:
		ok = isZero
	case fresh:
		ok = !isZero && !reflect.DeepEqual(got, was)
	case fromBody, "upload":
		sum := md5.Sum([]byte(copiedBody))
		switch name {
		case "Length":
			ok = got == int64(len(copiedBody))
		case "MD5":
			ok = reflect.DeepEqual(got, sum[:])
		case "ETag":
			ok = got == md5Tag(string(sum[:]))+"-1"
		case "Parts":
			ok = got == 1
		case "Checksum":
			k, _ := got.(buckets.Checksum)
			ok = want == fromBody && k == buckets.Checksum{Algorithm: "SHA256", Value: sha256Of(copiedBody)} || want == "upload" && k.Algorithm == "CRC32C" && k.Composite
		}
	}
	if ok {
		return ""
	}
	return "want " + want
}
