package buckets

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/errcode"
)

// invalidSettings gives each setting an invalid stored value. A change breaks one kind in a valid bucket.
var invalidSettings = map[Setting]func(*Bucket){
	SettingPublicRead: nil, // nothing can be wrong by itself; SettingOwnership has the contradiction
	SettingCORS: func(b *Bucket) {
		b.Settings.CORS = slices.Repeat([]CORSRule{{AllowedOrigins: []string{"*"}, AllowedMethods: []string{"GET"}}}, MaxCORSRules+1)
	},
	SettingTags:          func(b *Bucket) { b.Settings.Tags = map[string]string{"aws:stack": "x"} },
	SettingLifecycle:     func(b *Bucket) { b.Settings.Lifecycle.MinimumSize = "some" },
	SettingPolicy:        func(b *Bucket) { b.Settings.Policy.Document = "no policy" },
	SettingNotifications: func(b *Bucket) { b.Settings.Notifications.Rules[0].ARN = "arn:holdfast:webhook:::removed" },
	SettingAccessBlock:   func(b *Bucket) { b.Settings.PublicAccessBlock = PublicAccessBlock{BlockACLs: true} },
	SettingOwnership:     func(b *Bucket) { b.Settings.PublicRead, b.Settings.OwnerEnforced = true, true },
	SettingVersioning:    func(b *Bucket) { b.Versioning, b.Lock = VersioningSuspended+1, BucketLock{} },
	SettingLock:          func(b *Bucket) { b.Lock.Days = MaxLockDays + 1 },
}

// validBucket contains a valid value for each kind but OwnerEnforced, which excludes PublicRead.
func validBucket() Bucket {
	return Bucket{
		Settings: BucketSettings{
			PublicRead: true, CORS: []CORSRule{{AllowedOrigins: []string{"*"}, AllowedMethods: []string{"GET"}}}, Tags: map[string]string{"a": "b"},
			Lifecycle:         Lifecycle{Rules: []LifecycleRule{{ID: "a", Prefix: new(string), AbortDays: 1}}},
			Policy:            Policy{Document: "{}"},
			Notifications:     Notifications{Rules: []NotificationRule{{ID: "a", ARN: "arn:holdfast:webhook:::hook", Events: []string{"s3:ObjectCreated:*"}}}},
			PublicAccessBlock: PublicAccessBlock{Configured: true, BlockACLs: true},
		},
		Versioning: VersioningEnabled, Lock: BucketLock{Enabled: true, Mode: Governance, Days: 1},
	}
}

// TestCheckSettings walks all stored settings. A new field of BucketSettings or Bucket fails it until the kind
// has rules and an invalid value here.
func TestCheckSettings(t *testing.T) {
	t.Parallel()
	rules := &SettingRules{Destinations: []Destination{{Name: "hook", Kind: "webhook"}}, CheckPolicy: func(_ context.Context, b *Bucket) error {
		if b.Settings.Policy.Document != "{}" {
			return errcode.New(errcode.Invalid, "the bucket policy is not valid")
		}
		return nil
	}}
	fields := map[string]bool{}
	for _, k := range AllSettings() {
		fields[k.Field] = true
		spoil, known := invalidSettings[k.Setting]
		if !known || k.Words == "" || k.Setting.Words() != k.Words {
			t.Errorf("%s: add an invalid value", k.Setting)
		}
		if spoil == nil {
			continue
		}
		b := validBucket()
		spoil(&b)
		wrong, err := b.CheckSettings(t.Context(), rules)
		if err != nil || len(wrong) != 1 || wrong[0].Setting != k.Setting || wrong[0].Reason == "" {
			t.Errorf("%s: %+v, %v", k.Setting, wrong, err)
		}
	}
	for _, of := range []struct {
		is   reflect.Type
		none []string // no settings
	}{{reflect.TypeFor[BucketSettings](), []string{"ImportNotes", "OwnerPreferred"}}, {reflect.TypeFor[Bucket](), []string{"BucketRef", "Owner", "Created", "Settings"}}} {
		for f := range of.is.Fields() {
			if name := f.Name; !fields[name] && !slices.Contains(of.none, name) {
				t.Errorf("%s.%s is a setting without a kind", of.is, name)
			}
		}
	}
	for _, b := range []Bucket{validBucket(), {}} {
		if wrong, err := b.CheckSettings(t.Context(), rules); err != nil || len(wrong) > 0 {
			t.Errorf("a valid bucket: %+v, %v", wrong, err)
		}
	}
	b := validBucket()
	failing := *rules
	failing.CheckPolicy = func(context.Context, *Bucket) error { return errcode.New(errcode.Unavailable, "no database") }
	if _, err := b.CheckSettings(t.Context(), &failing); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("without a database: %v", err)
	}
}

// TestOpenImportNotes checks that a note about a setting is done once the bucket has the setting.
func TestOpenImportNotes(t *testing.T) {
	t.Parallel()
	var notes []ImportNote
	for _, k := range AllSettings() {
		notes = append(notes, NewImportNote(k.Setting, strings.Repeat("é", maxNote)))
	}
	notes = append(notes, NewImportNote(SettingObjects, "1 could not be imported"))
	if n := len(notes[0].Reason); n > maxNote+len("…") || strings.ContainsRune(notes[0].Reason, '\uFFFD') {
		t.Errorf("a long reason has %d bytes: %q", n, notes[0].Reason)
	}
	empty := Bucket{Settings: BucketSettings{ImportNotes: notes}}
	if open := empty.OpenImportNotes(); !slices.Equal(open, notes) {
		t.Errorf("without settings: %+v", open)
	}
	all := validBucket()
	all.Settings.OwnerEnforced, all.Settings.ImportNotes = true, notes
	if open := all.OpenImportNotes(); len(open) != 1 || open[0].Setting != SettingObjects {
		t.Errorf("with all settings: %+v", open)
	}
	if all.Lock = (BucketLock{Enabled: true}); len(all.OpenImportNotes()) != 2 {
		t.Errorf("without the default retention: %+v", all.OpenImportNotes())
	}
}

func TestCheckTags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list []Tag
		want TagProblem
	}{
		{nil, 0},
		{[]Tag{{"team", "x y"}, {"ä", ""}}, 0},
		{[]Tag{{"a", "1"}, {"a", "2"}}, TagTwice},
		{[]Tag{{"a", ""}, {"b", ""}, {"c", ""}}, TagsTooMany},
		{[]Tag{{"", "v"}}, TagKey},
		{[]Tag{{"a;b", "v"}}, TagKey},
		{[]Tag{{strings.Repeat("k", 129), "v"}}, TagKey},
		{[]Tag{{"AWS:x", "v"}}, TagSystem},
		{[]Tag{{"k", strings.Repeat("v", 257)}}, TagValue},
		{[]Tag{{"k", "\xff"}}, TagValue},
	} {
		_, err := TagsOf(c.list, 2)
		if (err == nil) != (c.want == 0) || err != nil && (err.Problem != c.want || err.Error() == "") {
			t.Errorf("%v: %v, want %d", c.list, err, c.want)
		}
	}
}

func TestCheckMetadata(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contentType string
		headers     map[string]string
		want        error
	}{
		{"text/plain", map[string]string{"m-a": strings.Repeat("x", MaxUserMetadata-1)}, nil},
		{"text/plain", map[string]string{"m-a": strings.Repeat("x", MaxUserMetadata)}, ErrMetadataSize},
		{"", map[string]string{"cache-control": strings.Repeat("x", MaxHeaders)}, ErrHeadersSize},
		{strings.Repeat("x", MaxHeaders+1), nil, ErrHeadersSize},
		{"", map[string]string{"m-a b": ""}, ErrMetadataName},
	} {
		if err := CheckMetadata(c.contentType, c.headers); err != c.want {
			t.Errorf("%.20q %d: %v, want %v", c.contentType, len(c.headers), err, c.want)
		}
	}
}
