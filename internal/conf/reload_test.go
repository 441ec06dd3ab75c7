package conf

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

type reloaded struct {
	Server struct {
		Listen string   `toml:"listen"`
		Level  string   `toml:"level" reload:"true" doc:"Minimum level."`
		Old    []Secret `toml:"old" reload:"true"`
	} `toml:"server"`
	Rates struct {
		Reads int           `toml:"reads"`
		Per   time.Duration `toml:"per"`
	} `toml:"rates" reload:"true"`
	Tiers map[string]limits `toml:"tiers" reload:"true"`
	Nodes map[string]limits `toml:"nodes"`
}

func running() *reloaded {
	c := &reloaded{Tiers: map[string]limits{"gold": {1, 1}, "old": {1, 2}}, Nodes: map[string]limits{"a": {1, 1}}}
	c.Server.Listen, c.Server.Level, c.Server.Old, c.Rates.Reads, c.Rates.Per = ":1", "info", []Secret{"x"}, 10, time.Minute
	return c
}

func TestChanges(t *testing.T) {
	t.Parallel()
	next := running()
	next.Server.Listen, next.Server.Level, next.Server.Old, next.Rates.Reads = ":2", "debug", nil, 20
	next.Tiers = map[string]limits{"gold": {1, 5}, "new": {0, 0}}
	next.Nodes = map[string]limits{"a": {1, 1}, "b": {2, 2}}
	got := map[string]bool{}
	for _, c := range Changes(running(), next) {
		got[c.Path] = c.Reloads
	}
	want := map[string]bool{
		"server.listen": false, "server.level": true, "server.old": true, "rates.reads": true, "tiers.gold.max_records": true,
		"tiers.new.max_post_bytes": true, "tiers.new.max_records": true, "tiers.old.max_post_bytes": true, "tiers.old.max_records": true,
		"nodes.b.max_post_bytes": false, "nodes.b.max_records": false,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	effective := *next
	Keep(&effective, running())
	want = map[string]bool{"server.listen": false, "nodes.b.max_post_bytes": false, "nodes.b.max_records": false}
	left := map[string]bool{}
	for _, c := range Changes(&effective, next) {
		left[c.Path] = c.Reloads
	}
	if !maps.Equal(left, want) || effective.Server.Listen != ":1" || effective.Server.Level != "debug" {
		t.Errorf("left %v in %+v", left, effective)
	}
	if all := Changes(running(), running()); all != nil {
		t.Errorf("nothing has changed: %v", all)
	}
	unset := running()
	unset.Server.Old, next.Server.Old = []Secret{}, nil
	if all := Changes([]Section{{Key: "x", Value: unset}}, []Section{{Key: "x", Value: running()}}); len(all) != 1 || all[0].Path != "x.server.old" {
		t.Errorf("a list that is set: %v", all)
	}
	both := running()
	both.Server.Old = nil
	if all := Changes(unset, both); all != nil {
		t.Errorf("a list without entries: %v", all)
	}
}

func TestReloadable(t *testing.T) {
	t.Parallel()
	got := Reloadable(running())
	want := []string{"server.level", "server.old", "rates.reads", "rates.per", "tiers.gold.max_post_bytes", "tiers.gold.max_records", "tiers.old.max_post_bytes", "tiers.old.max_records"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for name, text := range map[string]string{"reference": Reference(running()), "example": Example(running())} {
		if !strings.Contains(text, "Minimum level. Reloadable.") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
