package buckets

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func moment(t *testing.T, text string) Moment {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return At(at)
}

func TestAfterDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		begin string
		days  int
		want  string
	}{
		{"2014-01-15T10:30:00Z", 3, "2014-01-19T00:00:00Z"}, // the example in the S3 user guide
		{"2014-01-15T23:59:59Z", 1, "2014-01-17T00:00:00Z"},
		{"2014-01-15T00:00:00Z", 1, "2014-01-17T00:00:00Z"},
		{"2014-01-15T23:30:00-02:00", 1, "2014-01-18T00:00:00Z"},
		{"2024-02-28T12:00:00Z", 1, "2024-03-01T00:00:00Z"},
		{"2024-02-28T12:00:00Z", 365, "2025-02-28T00:00:00Z"},
		{"2024-02-28T12:00:00Z", 0, "2024-02-29T00:00:00Z"},
		{"1969-12-31T12:00:00Z", 1, "1970-01-02T00:00:00Z"},
		{"2024-02-28T12:00:00Z", math.MaxInt32, "9999-12-31T00:00:00Z"},
		{"9999-12-30T12:00:00Z", 1, "9999-12-31T00:00:00Z"},
	} {
		if got := AfterDays(moment(t, c.begin), c.days); got != moment(t, c.want) {
			t.Errorf("%d days after %s: %v, want %s", c.days, c.begin, got.Time(), c.want)
		}
	}
}

func withPrefix(id, prefix string, days int) LifecycleRule {
	return LifecycleRule{ID: id, Prefix: &prefix, Expiration: &Expiration{Days: days}}
}

// TestExpiryExamples uses the S3 user guide, "Examples of S3 Lifecycle configurations" and "Lifecycle configuration
// conflicts".
func TestExpiryExamples(t *testing.T) {
	t.Parallel()
	written := moment(t, "2014-01-15T10:30:00Z")
	filtered := func(id string, f LifecycleFilter, days int) LifecycleRule {
		return LifecycleRule{ID: id, Filter: &f, Expiration: &Expiration{Days: days}}
	}
	tag := func(k, v string) []Tag { return []Tag{{k, v}} }
	disabled := withPrefix("off", "", 1)
	disabled.Disabled = true
	for name, c := range map[string]struct {
		rules  []LifecycleRule
		object Object
		want   string // rule ID and day
	}{
		"prefix":                 {[]LifecycleRule{filtered("a", LifecycleFilter{Prefix: new("tax/")}, 3650)}, Object{Name: "tax/doc1.txt"}, "a 2024-01-14"},
		"another prefix":         {[]LifecycleRule{filtered("a", LifecycleFilter{Prefix: new("tax/")}, 3650)}, Object{Name: "taxes/doc1.txt"}, ""},
		"the prefix is a name":   {[]LifecycleRule{filtered("a", LifecycleFilter{Prefix: new("tax/")}, 3650)}, Object{Name: "tax"}, ""},
		"empty filter":           {[]LifecycleRule{filtered("a", LifecycleFilter{}, 1)}, Object{Name: "x"}, "a 2014-01-17"},
		"older form":             {[]LifecycleRule{withPrefix("a", "logs/", 365)}, Object{Name: "logs/1"}, "a 2015-01-16"},
		"disabled":               {[]LifecycleRule{disabled}, Object{Name: "x"}, ""},
		"one of two rules":       {[]LifecycleRule{withPrefix("a", "classA/", 3650), withPrefix("b", "classB/", 365)}, Object{Name: "classB/x"}, "b 2015-01-16"},
		"overlapping prefixes":   {[]LifecycleRule{filtered("a", LifecycleFilter{}, 365), withPrefix("b", "logs/", 30)}, Object{Name: "logs/x"}, "b 2014-02-15"},
		"the earliest wins":      {[]LifecycleRule{withPrefix("a", "logs/", 30), filtered("b", LifecycleFilter{}, 365)}, Object{Name: "logs/x"}, "a 2014-02-15"},
		"the first of two":       {[]LifecycleRule{withPrefix("a", "", 30), withPrefix("b", "", 30)}, Object{Name: "x"}, "a 2014-02-15"},
		"tag":                    {[]LifecycleRule{filtered("a", LifecycleFilter{Tags: tag("k", "v")}, 1)}, Object{Name: "x", Properties: Properties{Tags: map[string]string{"k": "v", "l": "w"}}}, "a 2014-01-17"},
		"another value":          {[]LifecycleRule{filtered("a", LifecycleFilter{Tags: tag("k", "v")}, 1)}, Object{Name: "x", Properties: Properties{Tags: map[string]string{"k": "V"}}}, ""},
		"no such tag":            {[]LifecycleRule{filtered("a", LifecycleFilter{Tags: tag("k", "")}, 1)}, Object{Name: "x"}, ""},
		"an empty value":         {[]LifecycleRule{filtered("a", LifecycleFilter{Tags: tag("k", "")}, 1)}, Object{Name: "x", Properties: Properties{Tags: map[string]string{"k": ""}}}, "a 2014-01-17"},
		"both tags":              {[]LifecycleRule{filtered("a", LifecycleFilter{And: true, Tags: []Tag{{"k", "v"}, {"l", "w"}}}, 1)}, Object{Name: "x", Properties: Properties{Tags: map[string]string{"k": "v"}}}, ""},
		"tag and prefix":         {[]LifecycleRule{filtered("a", LifecycleFilter{And: true, Prefix: new("p"), Tags: tag("k", "v")}, 1)}, Object{Name: "x", Properties: Properties{Tags: map[string]string{"k": "v"}}}, ""},
		"greater":                {[]LifecycleRule{filtered("a", LifecycleFilter{GreaterThan: new(int64(500))}, 1)}, Object{Name: "x", Body: Body{Length: 501}}, "a 2014-01-17"},
		"not greater":            {[]LifecycleRule{filtered("a", LifecycleFilter{GreaterThan: new(int64(500))}, 1)}, Object{Name: "x", Body: Body{Length: 500}}, ""},
		"greater than 0":         {[]LifecycleRule{filtered("a", LifecycleFilter{GreaterThan: new(int64(0))}, 1)}, Object{Name: "x"}, ""},
		"less":                   {[]LifecycleRule{filtered("a", LifecycleFilter{LessThan: new(int64(500))}, 1)}, Object{Name: "x", Body: Body{Length: 499}}, "a 2014-01-17"},
		"not less":               {[]LifecycleRule{filtered("a", LifecycleFilter{LessThan: new(int64(500))}, 1)}, Object{Name: "x", Body: Body{Length: 500}}, ""},
		"date":                   {[]LifecycleRule{{ID: "a", Filter: &LifecycleFilter{}, Expiration: &Expiration{Date: moment(t, "2012-01-01T00:00:00Z")}}}, Object{Name: "x"}, "a 2012-01-01"},
		"days before date":       {[]LifecycleRule{{ID: "a", Filter: &LifecycleFilter{}, Expiration: &Expiration{Date: moment(t, "2015-01-01T00:00:00Z")}}, withPrefix("b", "", 1)}, Object{Name: "x"}, "b 2014-01-17"},
		"only delete markers":    {[]LifecycleRule{{ID: "a", Filter: &LifecycleFilter{}, Expiration: &Expiration{DeleteMarker: new(true)}}}, Object{Name: "x"}, ""},
		"only old versions":      {[]LifecycleRule{{ID: "a", Filter: &LifecycleFilter{}, Noncurrent: &NoncurrentVersion{Days: 1}}}, Object{Name: "x"}, ""},
		"only uploads":           {[]LifecycleRule{{ID: "a", Filter: &LifecycleFilter{}, AbortDays: 1}}, Object{Name: "x"}, ""},
		"days of many lifetimes": {[]LifecycleRule{withPrefix("a", "", math.MaxInt32)}, Object{Name: "x"}, "a 9999-12-31"},
	} {
		c.object.Modified = written
		l := Lifecycle{Rules: c.rules}
		got := ""
		if e, ok := l.Expiry(&c.object); ok {
			got = e.Rule.ID + " " + e.At.Time().Format(time.DateOnly)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if wrong := l.Check(); wrong != nil {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

var lifecycles = rapid.Custom(func(t *rapid.T) (l Lifecycle) {
	prefix := rapid.SampledFrom([]string{"", "a", "aa", "ab", "b", "\U0010ffff"})
	for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
		r := LifecycleRule{ID: fmt.Sprint(i), Disabled: rapid.IntRange(0, 4).Draw(t, "disabled") == 0}
		if rapid.Bool().Draw(t, "older") {
			r.Prefix = new(prefix.Draw(t, "prefix"))
		} else {
			r.Filter = &LifecycleFilter{And: true, Prefix: new(prefix.Draw(t, "prefix"))}
			for _, k := range []string{"k", "l"} {
				if rapid.IntRange(0, 3).Draw(t, k) == 0 {
					r.Filter.Tags = append(r.Filter.Tags, Tag{k, rapid.SampledFrom([]string{"", "v"}).Draw(t, "value")})
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "sized") == 0 {
				r.Filter.GreaterThan, r.Filter.LessThan = new(rapid.Int64Range(0, 2).Draw(t, "greater")), new(rapid.Int64Range(4, 6).Draw(t, "less"))
			}
		}
		switch rapid.IntRange(0, 4).Draw(t, "action") {
		case 0:
			r.Expiration = &Expiration{Date: day * Moment(rapid.IntRange(19000, 19010).Draw(t, "date"))}
		case 1:
			r.AbortDays = rapid.IntRange(1, 4).Draw(t, "abort")
			if r.Filter != nil {
				r.Filter = &LifecycleFilter{Prefix: r.Filter.Prefix}
			}
		default:
			r.Expiration = &Expiration{Days: rapid.IntRange(1, 4).Draw(t, "days")}
		}
		l.Rules = append(l.Rules, r)
	}
	return l
})

var judged = rapid.Custom(func(t *rapid.T) Object {
	o := Object{
		Name: rapid.SampledFrom([]string{"a", "aa", "aab", "ab", "b", "c", "\U0010ffffx"}).Draw(t, "name"), Body: Body{Length: rapid.Int64Range(0, 6).Draw(t, "size")},
		Modified: day*19000 + Moment(rapid.Int64Range(-int64(4*day), int64(10*day)).Draw(t, "modified")),
	}
	if rapid.Bool().Draw(t, "tagged") {
		o.Tags = map[string]string{"k": rapid.SampledFrom([]string{"", "v"}).Draw(t, "k"), "l": rapid.SampledFrom([]string{"", "v"}).Draw(t, "l")}
	}
	return o
})

// naiveExpired follows the S3 documentation: an object expires if any rule says so.
func naiveExpired(l *Lifecycle, o *Object, now time.Time) bool {
	for _, r := range l.Rules {
		var prefix string
		if r.Prefix != nil {
			prefix = *r.Prefix
		}
		applies := !r.Disabled && r.Expiration != nil
		if f := r.Filter; f != nil {
			prefix = *f.Prefix
			applies = applies && (f.GreaterThan == nil || o.Length > *f.GreaterThan) && (f.LessThan == nil || o.Length < *f.LessThan)
			for _, t := range f.Tags {
				v, ok := o.Tags[t.Key]
				applies = applies && ok && v == t.Value
			}
		}
		if !applies || len(o.Name) < len(prefix) || o.Name[:len(prefix)] != prefix {
			continue
		}
		at := r.Expiration.Date.Time()
		if r.Expiration.Days > 0 {
			at = o.Modified.Time().Add(time.Duration(r.Expiration.Days) * 24 * time.Hour)
			at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
		}
		if !now.Before(at) {
			return true
		}
	}
	return false
}

func TestExpiryRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := lifecycles.Draw(t, "lifecycle")
		if wrong := l.Check(); wrong != nil {
			t.Fatalf("%v", wrong)
		}
		now := day*19000 + Moment(rapid.Int64Range(0, int64(10*day)).Draw(t, "now"))
		objects, uploads := l.ObjectPrefixes(now), l.UploadPrefixes()
		for _, all := range [][]string{objects, uploads} {
			for i := 1; i < len(all); i++ {
				if all[i-1] >= all[i] || strings.HasPrefix(all[i], all[i-1]) {
					t.Errorf("the prefixes are %q", all)
				}
			}
		}
		read := func(all []string, name string) bool {
			return slices.ContainsFunc(all, func(p string) bool { return strings.HasPrefix(name, p) })
		}
		for range 20 {
			o := judged.Draw(t, "object")
			e, ok := l.Expiry(&o)
			expired := ok && e.At <= now
			if want := naiveExpired(&l, &o, now.Time()); expired != want {
				t.Errorf("%+v at %v: %v, want %v by %+v", o, now.Time(), expired, want, l)
			}
			if expired && !read(objects, o.Name) {
				t.Errorf("%q is not read by %q", o.Name, objects)
			}
			if _, ok := l.AbortOf(&Upload{Name: o.Name, Created: o.Modified}); ok != read(uploads, o.Name) {
				t.Errorf("the upload of %q is aborted: %v, prefixes %q", o.Name, ok, uploads)
			}
			if (ok || read(uploads, o.Name)) && l.NextRun(now) > now+day {
				t.Error("the rules act")
			}
		}
	})
}
