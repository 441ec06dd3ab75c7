package imports

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
)

// versionsFrom parses the source's versions, oldest first: times, with "m" before a delete marker.
func versionsFrom(words string) (all []Listed) {
	for word := range strings.FieldsSeq(words) {
		l := Listed{Key: "k", ETag: "00", Size: 1}
		if word, l.Marker = strings.CutPrefix(word, "m"); l.Marker {
			l.ETag, l.Size = "", 0
		}
		_, _ = fmt.Sscan(word, &l.Modified)
		l.Version = word
		all = append(all, l)
	}
	return all
}

// versionsOfClients parses the target's versions, oldest first: source times. "c" after a time means changed by a
// client 1000 later, and before it, written by a client.
func versionsOfClients(words string) (all []buckets.Version) {
	for word := range strings.FieldsSeq(words) {
		v := buckets.Version{Object: buckets.Object{Body: buckets.Body{Length: 1, MD5: []byte{0}}}}
		word, isClients := strings.CutPrefix(word, "c")
		word, isChanged := strings.CutSuffix(word, "c")
		if word, v.Marker = strings.CutPrefix(word, "m"); v.Marker {
			v.Body = buckets.Body{}
		}
		_, _ = fmt.Sscan(word, &v.Modified)
		if !isClients {
			v.Imported = v.Modified
		}
		if isChanged {
			v.Modified += 1000
		}
		all = append(all, v)
	}
	return all
}

func TestPlanVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, from, here, want string }{
		{"new", "1 2 m3", "", "take 1 2 3"},
		{"equal", "1 2 m3", "1 2 m3", "same 1 2 3"},
		{"newer at the source", "1 2 m3 4", "1 2", "take 3 4 same 1 2"},
		{"deleted at the source", "1 3", "1 2 3", "delete 2 same 1 3"},
		{"all deleted at the source", "", "1 m2", "delete 1 2"},
		{"null version replaced at the source", "1 3", "1 2", "take 3 delete 2 same 1"},
		{"deleted here", "1 2 3", "3", "same 3 absent 2"},
		{"all deleted here", "1 2", "", "take 1 2"},
		{"newest deleted here", "1 2", "1", "take 2 same 1"},
		{"a client has written, before the source", "1 2 4", "1 2 c3", "take 4 same 1 2"},
		{"a client has written, after the source", "1 2 4", "1 2 c5", "keep same 1 2"},
		{"a client has deleted, after the source", "1 2 4", "1 2 cm5", "keep same 1 2"},
		{"a client has written only", "1 2", "1 2 c5", "same 1 2"},
		{"a client has changed metadata", "1 2", "1 2c", "same 1 2"},
		{"a client has changed metadata of what was deleted", "1", "1 2c", "same 1"},
		{"a client has changed metadata, and the source later", "1 2 2000", "1 2c", "take 2000 same 1 2"},
		{"a client has changed metadata after the source", "1 2 3", "1 2c", "keep same 1 2"},
		{"a client has written the same before", "1", "c5", "same 1"},
		{"a client has written the same before, with versions at the source", "1 2", "c5", "keep"},
		{"a client has written something earlier", "2", "c1", "take 2"},
		{"a marker is not an object", "m1", "1", "take 1 delete 1"},
		{"twice the same time", "1 1 1", "1", "take 1 1 same 1"},
	} {
		p := PlanVersions(versionsFrom(c.from), versionsOfClients(c.here), 0)
		var got []string
		add := func(word string, times []string) {
			if len(times) > 0 {
				got = append(append(got, word), times...)
			}
		}
		if p.Keep {
			got = append(got, "keep")
		}
		var take, del, same []string
		for _, l := range p.Take {
			take = append(take, fmt.Sprint(int64(l.Modified)))
		}
		for _, v := range p.Delete {
			del = append(del, fmt.Sprint(int64(v.Modified)))
		}
		for _, s := range p.Same {
			same = append(same, fmt.Sprint(int64(s.From.Modified)))
		}
		add("take", take)
		add("delete", del)
		add("same", same)
		if p.Absent > 0 {
			got = append(got, "absent", fmt.Sprint(p.Absent))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: from %q, here %q: %s, want %s", c.name, c.from, c.here, got, c.want)
		}
	}
	if p := PlanVersions(versionsFrom("1 3"), versionsOfClients("1 c5"), time.Duration(3)*time.Microsecond); p.Keep || len(p.Take) != 1 {
		t.Errorf("with a clock that is behind: %+v", p)
	}
}

// TestInOrder sorts lists from servers that send delete markers separately.
func TestInOrder(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"4 m3 2 m1":    "1 2 3 4",
		"3 2 1":        "1 2 3",
		"5 3 1 m4 m2":  "1 2 3 4 5",
		"m4 m2 5 3 1":  "1 2 3 4 5",
		"9 m8 7 m2 10": "10 2 7 8 9", // mixed: keep the order of the source, whose clock was wrong
	} {
		all := versionsFrom(list)
		var got []string
		for _, l := range inOrder(all) {
			got = append(got, l.Version)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", list, got, want)
		}
	}
	same := versionsFrom("2 1 m2")
	same[2].Latest = true
	if got := inOrder(same); !got[2].Marker {
		t.Errorf("the current one is not last: %v", got)
	}
}

func TestParseVersions(t *testing.T) {
	t.Parallel()
	const document = `<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
		<Version><Key>a%2Bb</Key><VersionId>3</VersionId><IsLatest>true</IsLatest><LastModified>2026-01-02T03:04:05.678Z</LastModified><ETag>&quot;00&quot;</ETag><Size>5</Size></Version>
		<DeleteMarker><Key>a%2Bb</Key><VersionId>2</VersionId><LastModified>2026-01-02T03:04:05Z</LastModified></DeleteMarker>
		<CommonPrefixes><Prefix>x</Prefix></CommonPrefixes><Version><Key>z</Key><VersionId>null</VersionId></Version></ListVersionsResult>`
	all, err := parseVersions([]byte(document), "url")
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	want := []Listed{
		{Key: "a+b", Version: "3", ETag: "00", Size: 5, Modified: buckets.At(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)), Latest: true},
		{Key: "a+b", Version: "2", Marker: true, Modified: buckets.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))},
	}
	if !slices.Equal(all[:2], want) || all[2].Version != "null" {
		t.Errorf("%+v, want %+v", all, want)
	}
	for _, bad := range []string{"<a", "<a><Version><Size>x</Size></Version></a>", "<a><Version><Key>%</Key></Version></a>"} {
		if _, err := parseVersions([]byte(bad), "url"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
