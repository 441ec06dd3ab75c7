package syncstorage

import (
	"strings"
	"testing"
)

// TestLimitsFollow sets each limit alone and together, for all records and for a collection. A POST always contains the
// largest record, a body the largest POST, and a batch too, or the problem names both settings.
func TestLimitsFollow(t *testing.T) {
	t.Parallel()
	const mib, general, collection = 1 << 20, "limits.", "limits.collections.tabs."
	initial := DefaultConfig().Limits
	for _, c := range []struct {
		name     string
		set      map[string]int64
		of       CollectionLimits
		problems []string // parts of each problem, in order
	}{
		{name: "defaults"},
		{name: "a larger record", set: map[string]int64{keyRecord: 5 * mib}},
		{name: "a record above the default batch", set: map[string]int64{keyRecord: 300 * mib}},
		{name: "a larger POST", set: map[string]int64{keyPost: 300 * mib}},
		{name: "a smaller POST", set: map[string]int64{keyPost: mib}},
		{name: "a smaller record", set: map[string]int64{keyRecord: mib}},
		{name: "a larger body", set: map[string]int64{keyRequest: 5 * mib}},
		{name: "all agree", set: map[string]int64{keyRecord: 5 * mib, keyPost: 5 * mib, keyRequest: 6 * mib, keyTotal: 5 * mib}},
		{name: "a POST below the record", set: map[string]int64{keyRecord: 5 * mib, keyPost: 4 * mib}, problems: []string{
			general + keyPost + ": must be at least 5242880, which is limits.max_record_payload_bytes: raise or unset it, or lower limits.max_record_payload_bytes"}},
		{name: "a body below the record", set: map[string]int64{keyRecord: 5 * mib, keyRequest: 5 * mib}, problems: []string{
			general + keyRequest + ": must be at least 5246976, which is limits.max_record_payload_bytes + 4096"}},
		{name: "a body below the POST", set: map[string]int64{keyRequest: mib}, problems: []string{general + keyRequest + ": must be at least 2625536, which is limits.max_post_bytes + 4096"}},
		{name: "a batch below the record", set: map[string]int64{keyRecord: 5 * mib, keyTotal: 4 * mib}, problems: []string{
			general + keyTotal + ": must be at least 5242880, which is limits.max_record_payload_bytes"}},
		{name: "a collection's larger record", of: CollectionLimits{MaxRecordPayloadBytes: 5 * mib}},
		{name: "a collection's record above the batch", of: CollectionLimits{MaxRecordPayloadBytes: 300 * mib}},
		{name: "a collection's smaller POST", of: CollectionLimits{MaxPostBytes: mib}},
		{name: "a collection's POST below its record", of: CollectionLimits{MaxRecordPayloadBytes: 5 * mib, MaxPostBytes: 4 * mib}, problems: []string{
			collection + keyPost + ": must be at least 5242880, which is " + collection + keyRecord}},
		{name: "a collection's body below its record", of: CollectionLimits{MaxRecordPayloadBytes: 5 * mib, MaxRequestBytes: mib}, problems: []string{
			collection + keyRequest + ": must be at least 5246976, which is " + collection + keyRecord + " + 4096"}},
		{name: "a batch below a collection's record", set: map[string]int64{keyTotal: 4 * mib}, of: CollectionLimits{MaxRecordPayloadBytes: 5 * mib}, problems: []string{
			general + keyTotal + ": must be at least 5242880, which is " + collection + keyRecord}},
	} {
		l := initial
		for key, value := range c.set {
			*map[string]*int64{keyRecord: &l.MaxRecordPayloadBytes, keyPost: &l.MaxPostBytes, keyRequest: &l.MaxRequestBytes, keyTotal: &l.MaxTotalBytes}[key] = value
		}
		if c.of != (CollectionLimits{}) {
			l.Collections = map[string]CollectionLimits{"tabs": c.of}
		}
		isSet := func(key string) bool { _, ok := c.set[key]; return ok }
		l.Follow(isSet)
		problems := l.CheckLimits(isSet)
		if len(problems) != len(c.problems) {
			t.Errorf("%s: problems %v, want %d", c.name, problems, len(c.problems))
			continue
		}
		for i, want := range c.problems {
			if got := problems[i].Key + ": " + problems[i].What; !strings.Contains(got, want) {
				t.Errorf("%s: %s\nwant %s", c.name, got, want)
			}
		}
		for key, value := range map[string]int64{keyRecord: l.MaxRecordPayloadBytes, keyPost: l.MaxPostBytes, keyRequest: l.MaxRequestBytes, keyTotal: l.MaxTotalBytes} {
			if set, ok := c.set[key]; ok && set != value {
				t.Errorf("%s: %s changed from %d to %d", c.name, key, set, value)
			}
		}
		for _, of := range []Limits{l, l.For("tabs")} {
			fits := of.MaxRecordPayloadBytes <= of.MaxPostBytes && of.MaxPostBytes+requestOverhead <= of.MaxRequestBytes && of.MaxPostBytes <= of.MaxTotalBytes
			if len(c.problems) == 0 && !fits {
				t.Errorf("%s: %+v", c.name, of)
			}
		}
	}
}
