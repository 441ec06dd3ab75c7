package httpapi_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
)

func TestListsOfManySlices(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *server) {
		ctx, now := context.WithoutCancel(t.Context()), buckets.At(time.Now())
		owner, err := s.store.Account(ctx, "main")
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.store.Bucket(ctx, owner.ID, "photos")
		if err != nil {
			t.Fatal(err)
		}
		var names, groups, made []string
		for i := range 700 {
			name := fmt.Sprintf("%02d/%04d-", i%40, i) + strings.Repeat(`"`, 500)
			o := buckets.Object{Name: name, ContentType: "text/plain", Headers: map[string]string{"m-a": strings.Repeat("h", 2000)}, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), MD5: make([]byte, 16), Inline: []byte{}}}
			if _, err := s.store.Put(ctx, owner.ID, b.BucketRef, buckets.Put{Object: o, Now: now}); err != nil {
				t.Fatal(err)
			}
			names, groups = append(names, name), append(groups, name[:3])
		}
		slices.Sort(names)
		slices.Sort(groups)
		groups = slices.Compact(groups)
		rule := buckets.CORSRule{AllowedMethods: []string{"GET"}, AllowedOrigins: slices.Repeat([]string{"https://example.com"}, 1500)}
		for i := range 30 {
			ref := buckets.BucketRef{Name: fmt.Sprintf("bucket-%02d", i), ID: buckets.BucketID(buckets.NewUUID())}
			if _, err := s.store.CreateBucket(ctx, owner.ID, ref, now); err != nil {
				t.Fatal(err)
			}
			if err := s.store.SetBucket(ctx, owner.ID, ref, buckets.SettingsChange{CORS: &[]buckets.CORSRule{rule}}); err != nil {
				t.Fatal(err)
			}
			made = append(made, ref.Name)
		}
		for target, want := range map[string][]string{
			photos + "/objects?limit=1024":        names,
			photos + "/objects?metadata=true":     names,
			photos + "/objects?delimiter=/":       groups,
			photos + "/objects?limit=699":         names,
			photos + "/objects?prefix=17/":        slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, "17/") }),
			strings.TrimSuffix(photos, "/photos"): append(slices.Clone(made), "photos"),
		} {
			got := s.pages(target)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d entries, want %d", target, len(got), len(want))
			}
		}
	})
}

func (s *server) pages(target string) (all []string) {
	s.t.Helper()
	for marker := ""; ; {
		page, next := s.do("GET", target+marker, "").is(200).names()
		if all = append(all, page...); next == nil {
			return all
		}
		query := "&marker="
		if !strings.Contains(target, "?") {
			query = "?marker="
		}
		marker = query + url.QueryEscape(*next)
	}
}
