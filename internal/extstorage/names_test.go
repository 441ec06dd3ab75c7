package extstorage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

func TestUUIDs(t *testing.T) {
	t.Parallel()
	const id = "0f8b2c1e-7d3a-4f7e-9a51-3c1d2e4f5a6b"
	for in, want := range map[string]string{
		id:                                     id,
		strings.ToUpper(id):                    id,
		"ffffffff-ffff-ffff-ffff-ffffffffffff": "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"00000000-0000-0000-0000-000000000001": "00000000-0000-0000-0000-000000000001",
		"":                                     "",
		"00000000-0000-0000-0000-000000000000": "",
		strings.ReplaceAll(id, "-", ""):        "",
		"{" + id + "}":                         "",
		"urn:uuid:" + id:                       "",
		id + "\n":                              "",
		id[:35]:                                "",
		id[:35] + "g":                          "",
		strings.ReplaceAll(id, "-", "0"):       "",
		id[:8] + "0-" + id[10:]:                "",
		"-" + id[1:]:                           "",
		id[:34] + "é":                          "",
	} {
		tenant, err := ext.ParseTenantID(in)
		if string(tenant) != want || (err == nil) != (want != "") {
			t.Errorf("tenant %q is %q, %v", in, tenant, err)
		}
		install, err := ext.ParseInstallID(in)
		if string(install) != want || (err == nil) != (want != "") {
			t.Errorf("install %q is %q, %v", in, install, err)
		}
		if want == "" && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: code %v", in, errcode.Of(err))
		}
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	for o, want := range map[ext.Owner]bool{
		{}:                          false,
		{Tenant: "t"}:               false,
		{Install: "i"}:              false,
		{Tenant: "t", Install: "i"}: true,
	} {
		if err := o.Check(); (err == nil) != want || err != nil && !errcode.Is(err, errcode.Denied) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"a": true, "0": true, "settings": true, "a-b-": true, "2024-log": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "-a": false, "-": false, "A": false, "a_b": false, "a.b": false, "a/b": false,
		"é": false, "a\n": false, "a\x00": false, "ａ": false,
	} {
		ns, err := ext.ParseNamespace(in)
		if (err == nil) != want || want && string(ns) != in || !want && (ns != "" || !errcode.Is(err, errcode.Invalid)) {
			t.Errorf("%q is %q, %v", in, ns, err)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"a": true, ".": true, "..": true, " ": true, "A b": true, "a%2Fb": true, `"\`: true, "é": true, "e\u0301": true, "\u2028": true,
		"\ufffd": true, "\U0010ffff": true, "a:b?c#d": true,
		strings.Repeat("a", 128): true, strings.Repeat("😀", 128): true,
		"": false, strings.Repeat("a", 129): false, strings.Repeat("😀", 129): false, strings.Repeat("a", 513): false,
		"/": false, "a/b": false, "\x00": false, "a\nb": false, "\x1f": false, "\x7f": false, "\u0080": false, "\u009f": false,
		"\xff": false, "a\xed\xa0\x80": false,
	} {
		key, err := ext.ParseKey(in)
		if (err == nil) != want || want && string(key) != in || !want && (key != "" || !errcode.Is(err, errcode.Invalid)) {
			t.Errorf("%q is %q, %v", in, key, err)
		}
	}
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	now := ext.At(time.Date(2026, 2, 3, 4, 5, 6, 789_999_999, time.UTC))
	if !now.Time().Equal(time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC)) {
		t.Errorf("now is %v", now.Time())
	}
	limits := ext.DefaultLimits()
	for seconds, want := range map[int64]bool{
		-1: false, 0: false, 59: false, 60: true, 61: true, 2_592_000: true, 2_592_001: false, 1 << 62: false, -1 << 63: false,
	} {
		at, err := limits.ExpiresAt(now, seconds)
		refused, _ := errors.AsType[*ext.ValidationError](err)
		switch {
		case want && (err != nil || at.Time().Sub(now.Time()) != time.Duration(seconds)*time.Second):
			t.Errorf("%d seconds end at %v, %v", seconds, at.Time(), err)
		case !want && (refused == nil || refused.Reason != "must be from 60 to 2592000 seconds"):
			t.Errorf("%d seconds: %v", seconds, err)
		}
	}
	for _, tc := range []struct {
		end, now ext.Moment
		want     bool
	}{{0, now, false}, {now, now, true}, {now, now - 1, false}, {now, now + 1, true}} {
		if got := tc.end.Reached(tc.now); got != tc.want {
			t.Errorf("%d is reached at %d: %v", tc.end, tc.now, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	wantLimits := ext.Limits{
		Value: 65536, Metadata: 4096, Items: 20, ItemsBytes: 524288, MinTTL: time.Minute, MaxTTL: 720 * time.Hour,
	}
	if got := ext.DefaultLimits(); got != wantLimits {
		t.Errorf("limits %+v", got)
	}
	if got := ext.DefaultQuota(); got != (ext.Quota{Bytes: 268_435_456, Namespaces: 32, Keys: 5120}) {
		t.Errorf("quota %+v", got)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	if v, err := ext.ParseMetadata([]byte(` {"b": [], "a": null} `), 100); err != nil || v != `{"a":null,"b":[]}` {
		t.Errorf("an object: %q, %v", v, err)
	}
	if v, err := ext.ParseMetadata([]byte("{}"), 2); err != nil || v != canonjson.EmptyObject {
		t.Errorf("nothing: %q, %v", v, err)
	}
	for _, in := range []string{"null", "[]", `"{}"`, "1", "true"} {
		if _, err := ext.ParseMetadata([]byte(in), 100); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%s is metadata: %v", in, err)
		}
	}
	if _, err := ext.ParseMetadata([]byte(`{"a":1}`), 6); !errors.Is(err, canonjson.ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}
