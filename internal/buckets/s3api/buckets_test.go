package s3api_test

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/buckets"
)

// bucketPages reads all pages, and returns their number.
func (s *server) bucketPages(prefix string, size int) (all []string, pages int) {
	s.t.Helper()
	for token := ""; ; {
		a := s.do("GET", "/?max-buckets="+strconv.Itoa(size)+"&prefix="+escape(prefix)+"&bucket-region="+region+"&continuation-token="+escape(token), "").want(200)
		page := a.elements("Name")
		all, pages = append(all, page...), pages+1
		if token = a.element("ContinuationToken"); len(page) > size || token != "" && len(page) != size || prefix != "" && a.element("Prefix") != prefix {
			s.t.Fatalf("%d %q: %s", size, prefix, a.body)
		}
		if token == "" {
			return all, pages
		}
	}
}

// TestListBuckets follows https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListBuckets.html.
func TestListBuckets(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *server) {
		t.Helper()
		var all []string
		for _, name := range []string{"a-1", "a-2", "a.b", "a0a", "b-1", "b-2", "b-3"} {
			s.do("PUT", "/"+name, "").want(200)
			all = append(all, name)
		}
		s.as(s.other, "PUT", "/a-other", "").want(200)
		names := func(a answer) []string { return a.want(200).elements("Name") }
		list := s.do("GET", "/", "")
		if got := names(list); !slices.Equal(got, all) || len(list.elements("BucketRegion")) != len(all) || list.element("BucketRegion") != region {
			t.Errorf("all: %v %s", got, list.body)
		}
		list.hasNot("<Prefix>").hasNot("ContinuationToken")
		for size := 1; size <= len(all)+1; size++ {
			for prefix, want := range map[string][]string{"": all, "a-": {"a-1", "a-2"}, "b": {"b-1", "b-2", "b-3"}, "a%": nil, "c": nil, "a-1": {"a-1"}} {
				if got, pages := s.bucketPages(prefix, size); !slices.Equal(got, want) || pages != max(1, (len(want)+size-1)/size) {
					t.Errorf("%d %q: %v in %d pages", size, prefix, got, pages)
				}
			}
		}
		s.do("GET", "/?bucket-region=mars-1&max-buckets=2", "").want(200).hasNot("<Name>").hasNot("ContinuationToken")
		if got := names(s.do("GET", "/?max-buckets=10000", "")); !slices.Equal(got, all) {
			t.Errorf("10000: %v", got)
		}
		token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		for _, query := range []string{
			"max-buckets=0", "max-buckets=10001", "max-buckets=-1", "max-buckets=", "max-buckets=x", "max-buckets=1.5", "max-buckets=99999999999999999999", "bucket-region=",
			"continuation-token=a-1", "continuation-token=%21", "continuation-token=" + token("a"), "continuation-token=" + token("aInvalid"), "continuation-token=" + token("ia-1"),
			"continuation-token=" + token("xa-1"), "continuation-token=" + token("aa\x00"), "continuation-token=" + strings.Repeat("a", 2000), "continuation-token=" + token("a"+strings.Repeat("a", 64)),
			"prefix=%ff", "prefix=" + strings.Repeat("a", 1025),
		} {
			s.do("GET", "/?"+query, "").fails(400, "InvalidArgument")
		}
		// A key for some buckets lists only these, and repeats the prefix that the client sent.
		key := s.limited(buckets.KeyLimits{Buckets: []string{"b-*"}})
		if got := names(s.as(key, "GET", "/?prefix=b&max-buckets=2", "")); !slices.Equal(got, []string{"b-1", "b-2"}) {
			t.Errorf("with a key: %v", got)
		}
		if got := s.as(key, "GET", "/?prefix=b", "").element("Prefix"); got != "b" {
			t.Errorf("with a key: the prefix is %q", got)
		}
	})
}
