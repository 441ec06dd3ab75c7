package conf

import (
	"reflect"
	"testing"
	"time"
)

func TestFromText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		like any // a value of the field's type
		text string
		want any // nil if refused
	}{
		{"", "", ""},
		{"", " a ", " a "},
		{false, "1", true},
		{false, "TRUE", true},
		{false, "yes", nil},
		{int(0), "-5", int64(-5)},
		{int(0), "1e3", nil},
		{int(0), "", nil},
		{int64(0), "0x10", nil},
		{0.0, "1e-2", 0.01},
		{0.0, "inf", nil},
		{0.0, "NaN", nil},
		{time.Duration(0), "0", time.Duration(0)},
		{time.Duration(0), "1.5h", 90 * time.Minute},
		{time.Duration(0), "5", nil},
		{time.Duration(0), "-9223372036s", -9223372036 * time.Second},
		{time.Duration(0), "9223372037s", nil},
		{time.Duration(0), "1 h", nil},
		{[]string{}, "", []string{}},
		{[]Secret{}, "a , b", []string{"a", "b"}},
	} {
		got, ok := newNode(reflect.TypeOf(c.like)).fromText(c.text)
		if ok != (c.want != nil) || (ok && !reflect.DeepEqual(got, c.want)) {
			t.Errorf("%T %q: got %v, %v; want %v", c.like, c.text, got, ok, c.want)
		}
	}
}

func TestFromAlias(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"0": time.Duration(0), "600": 10 * time.Minute, "-9223372036": -9223372036 * time.Second, "2h": 2 * time.Hour,
		"-9223372037": nil, "9223372037": nil, "1.5": nil,
	} {
		got, ok := newNode(reflect.TypeFor[time.Duration]()).fromAlias(text)
		if ok != (want != nil) || (ok && got != want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, ok, want)
		}
	}
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`"a \"b\""`:  `a "b"`,
		`["a", "b"]`: []string{"a", "b"},
		"2.0":        2.0,
		"0.25":       0.25,
		"-3":         -3,
		"true":       true,
		`"2h"`:       2 * time.Hour,
		"[set]":      Secret("hunter2"),
	} {
		if got := newNode(reflect.TypeOf(value)).literal(reflect.ValueOf(value)); got != want {
			t.Errorf("%v: got %s, want %s", value, got, want)
		}
	}
}

// A transform receives the current value, or "" if the name is new.
func TestTransformInNamedSection(t *testing.T) {
	t.Parallel()
	type node struct {
		URL string `toml:"url"`
	}
	c := struct {
		Nodes map[string]node `toml:"nodes"`
	}{map[string]node{"a": {"http://a"}}}
	_, err := Load(&c, Options{
		Aliases: []Alias{{Env: "SYNC_NODES__*", Path: "nodes.*", Transform: func(current, value string) (string, error) {
			return current + value, nil
		}}},
		Environ: []string{"SYNC_NODES__A__URL=/x", "SYNC_NODES__B__URL=/y"},
	})
	want := map[string]node{"a": {"http://a/x"}, "b": {"/y"}}
	if err != nil || !reflect.DeepEqual(c.Nodes, want) {
		t.Errorf("got %v, %v; want %v", c.Nodes, err, want)
	}
}

func TestEnvName(t *testing.T) {
	t.Parallel()
	if got := envName([]string{"sync", "collections", "newtab-images", "max_records"}); got != "HOLDFAST_SYNC__COLLECTIONS__NEWTAB_IMAGES__MAX_RECORDS" {
		t.Error(got)
	}
}
