package s3api

import (
	"bytes"
	"encoding/xml"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
)

// FuzzXML compares decodeXML with encoding/xml, and checks S3's limits.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{
		`<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet><Object><Key>a&#10;b</Key><VersionId>null</VersionId></Object><Object><Key>c</Key><ETag>"x"</ETag></Object></Delete>`,
		`<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag><ChecksumCRC32>x</ChecksumCRC32></Part></CompleteMultipartUpload>`,
		`<CORSConfiguration><CORSRule><ID>a</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>5</MaxAgeSeconds></CORSRule></CORSConfiguration>`,
		`<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`,
		`<AccessControlPolicy><Owner><ID>a</ID></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group"><URI>u</URI></Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>`,
		"\ufeff<Delete/>", "<Delete></Delete>x", "<Delete/><Delete/>", "<!DOCTYPE Delete><Delete/>", "<a:Delete xmlns:a='b'><a:Object/></a:Delete>", "<Delete><Object><Key>a<!-- b -->c<![CDATA[d]]></Key></Object></Delete>",
		"<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>", "<Delete><Object><Key>a<b/></Key></Object></Delete>", "<Tagging>" + strings.Repeat("<a>", 20),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for root, c := range map[string]struct{ got, want any }{
			"Delete": {new(deletion), new(deletion)}, "CompleteMultipartUpload": {new(completion), new(completion)}, "CORSConfiguration": {new(corsConfiguration), new(corsConfiguration)},
			"Tagging": {new(tagSet), new(tagSet)}, "AccessControlPolicy": {new(accessControlPolicy), new(accessControlPolicy)},
		} {
			if decodeXML(bytes.NewReader(text), c.got) != nil {
				continue
			}
			reflect.ValueOf(c.got).Elem().FieldByName("XMLName").SetZero()
			if err := unmarshal(text, c.want); err != nil || !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("%q is read as %+v, want %+v, %v", text, c.got, c.want, err)
			}
			if !strings.Contains(string(text), root) || strings.Contains(string(text), "<!DOCTYPE") && !strings.Contains(string(text), "<!--") && !strings.Contains(string(text), "CDATA") {
				t.Errorf("%q is accepted as %s", text, root)
			}
			if list, ok := c.got.(*deletion); ok {
				checkDeletion(t, list)
			}
		}
	})
}

// unmarshal is xml.Unmarshal without the root's name.
func unmarshal(text []byte, v any) error {
	err := xml.Unmarshal(text, v)
	reflect.ValueOf(v).Elem().FieldByName("XMLName").SetZero()
	return err
}

func checkDeletion(t *testing.T, list *deletion) {
	t.Helper()
	if len(list.Objects) > maxPage {
		t.Errorf("%d objects", len(list.Objects))
	}
	d := newDocument("Delete")
	for i := range list.Objects {
		d.begin("Object")
		d.text("Key", list.Objects[i].Key)
		d.end()
	}
	var again deletion
	if err := decodeXML(bytes.NewReader(d.bytes()), &again); err != nil {
		t.Fatalf("%q: %v", d.b, err)
	}
	key := func(o deletedKey) string { return o.Key }
	if !slices.EqualFunc(list.Objects, again.Objects, func(a, b deletedKey) bool { return key(a) == key(b) }) {
		t.Errorf("%q is read as %+v", d.b, again)
	}
}

// FuzzDate checks that date accepts the formats of HTTP and RFC 3339, and nothing else.
func FuzzDate(f *testing.F) {
	f.Add(int64(784111777), "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add(int64(0), "Sunday, 06-Nov-94 08:49:37 GMT")
	f.Add(int64(-62167219200), "Sun Nov  6 08:49:37 1994")
	f.Add(int64(253402300799), "9999-12-31T23:59:59.999999999+23:59")
	f.Add(int64(-1), "Sun, 06 Nov 99999 08:49:37 GMT")
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, seconds int64, text string) {
		if m := date([]string{text}); m != 0 {
			// A zone moves a time by less than 24 hours.
			if at := m.Time(); at.Before(first.Add(-24*time.Hour)) || !at.Before(last.Add(24*time.Hour)) {
				t.Errorf("%q is %v", text, at)
			}
			if !strings.ContainsAny(text, "0123456789") {
				t.Errorf("%q is a date", text)
			}
		}
		at := time.Unix(seconds, 0).UTC()
		if at.Before(first) || !at.Before(last) {
			return
		}
		formats := []string{http.TimeFormat, time.ANSIC, time.RFC3339}
		if at.Year() >= 1969 && at.Year() < 2069 {
			formats = append(formats, "Monday, 02-Jan-06 15:04:05 GMT")
		}
		for _, format := range formats {
			m := date([]string{at.Format(format)})
			if m == 0 || m.Seconds() != seconds {
				t.Errorf("%q is %v", at.Format(format), m.Time())
			}
			// An object is modified since the second before its modification, but not since that second.
			o := buckets.Object{Modified: buckets.At(at.Add(999 * time.Millisecond))}
			since := buckets.Condition{ModifiedSince: m}
			until := buckets.Condition{UnmodifiedSince: m}
			if since.CheckRead(&o) == nil || until.CheckRead(&o) != nil {
				t.Errorf("%q: since %v, until %v", at.Format(format), since.CheckRead(&o), until.CheckRead(&o))
			}
			o.Modified = buckets.At(at.Add(time.Second))
			if since.CheckRead(&o) != nil || until.CheckRead(&o) == nil {
				t.Errorf("%q, a second later: since %v, until %v", at.Format(format), since.CheckRead(&o), until.CheckRead(&o))
			}
		}
	})
}
