package imports

import (
	"testing"
	"time"

	"holdfast/internal/buckets"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const t0, minute = buckets.Moment(1_700_000_000_000_000), buckets.Moment(60e6)
	from := func(etag string, at buckets.Moment) *Listed { return &Listed{ETag: etag, Size: 5, Modified: at} }
	here := func(etag string, modified, imported buckets.Moment) *buckets.Object {
		return &buckets.Object{Modified: modified, Body: buckets.Body{Length: 5}, Properties: buckets.Properties{ETag: etag, Imported: imported}}
	}
	for name, c := range map[string]struct {
		from   *Listed
		here   *buckets.Object
		behind time.Duration
		want   Action
	}{
		"new":                                {from("a", t0), nil, 0, Take},
		"unchanged":                          {from("a", t0), here("a", t0, t0), 0, Skip},
		"metadata changed at the source":     {from("a", t0+minute), here("a", t0, t0), 0, Take},
		"changed at the source":              {from("b", t0+minute), here("a", t0, t0), 0, Take},
		"an older one restored there":        {from("b", t0-minute), here("a", t0, t0), 0, Take},
		"metadata changed here":              {from("a", t0), here("a", t0+minute, t0), 0, Skip},
		"changed at both, there later":       {from("b", t0+2*minute), here("a", t0+minute, t0), 0, Take},
		"changed at both, here later":        {from("b", t0+minute), here("a", t0+2*minute, t0), 0, Keep},
		"written here, same body":            {from("a", t0), here("a", t0+minute, 0), 0, Skip},
		"written here later":                 {from("a", t0), here("b", t0+minute, 0), 0, Keep},
		"written there later":                {from("a", t0+2*minute), here("b", t0+minute, 0), 0, Take},
		"written at the same time":           {from("a", t0), here("b", t0, 0), 0, Keep},
		"written there later, clock behind":  {from("a", t0-58*minute), here("b", t0+minute, 0), time.Hour, Take},
		"written here later, clock behind":   {from("a", t0-60*minute), here("b", t0+minute, 0), time.Hour, Keep},
		"written here later, clock ahead":    {from("a", t0+60*minute), here("b", t0+minute, 0), -time.Hour, Keep},
		"deleted at the source":              {nil, here("a", t0, t0), 0, Delete},
		"deleted there, metadata set here":   {nil, here("a", t0+minute, t0), 0, Keep},
		"only here":                          {nil, here("a", t0, 0), 0, Keep},
		"other size, same tag, not imported": {&Listed{ETag: "a", Size: 6, Modified: t0}, here("a", t0-minute, 0), 0, Take},
	} {
		if got := Decide(c.from, c.here, c.behind); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
