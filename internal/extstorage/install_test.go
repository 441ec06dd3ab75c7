package extstorage_test

import (
	"testing"

	ext "holdfast/internal/extstorage"
)

func TestAccessText(t *testing.T) {
	t.Parallel()
	for text, access := range map[string]ext.Access{"": 0, "r": ext.Read, "w": ext.Modify, "rw": ext.Read | ext.Modify} {
		spelled, err := access.MarshalText()
		if err != nil || string(spelled) != text {
			t.Errorf("%d is spelled %q, %v", access, spelled, err)
		}
		got := ^access
		if err := got.UnmarshalText([]byte(text)); err != nil || got != access {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"wr", "R", "read", "rw "} {
		var a ext.Access
		if err := a.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d", text, a)
		}
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	tier := ext.Quota{Bytes: 100, Namespaces: 10, Keys: 50}
	for _, c := range []struct {
		granted ext.Quota
		until   ext.Moment
		want    ext.Quota
	}{
		{ext.Quota{}, 1000, tier},
		{ext.Quota{Bytes: 200}, 1000, ext.Quota{Bytes: 200, Namespaces: 10, Keys: 50}},
		{ext.Quota{Namespaces: 3, Keys: 70}, 501, ext.Quota{Bytes: 100, Namespaces: 3, Keys: 70}},
		{ext.Quota{Bytes: 200, Namespaces: 3, Keys: 70}, 500, tier},
		{ext.Quota{Bytes: 200}, 0, tier},
	} {
		in := ext.Install{Registration: ext.Registration{Overrides: ext.Overrides{Quota: c.granted, Until: c.until}}}
		if got := in.Quota(tier, 500); got != c.want {
			t.Errorf("%+v until %d: %+v, want %+v", c.granted, c.until, got, c.want)
		}
	}
}
