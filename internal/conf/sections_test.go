package conf_test

import (
	"strings"
	"testing"

	"holdfast/internal/conf"
)

// Pool is embedded, like settings that services share.
type Pool struct {
	Size int    `toml:"pool_size" doc:"Connections."`
	URL  string `toml:"url" secret:"true" doc:"Where it is."`
}

type first struct {
	Pool
	Name string `toml:"name" doc:"A name."`
}

type second struct {
	On bool `toml:"on"`
}

func TestSections(t *testing.T) {
	t.Parallel()
	a, b := first{Name: "x"}, second{}
	a.Size = 3
	sections := []conf.Section{{Key: "first", Doc: "The first.", Value: &a}, {Key: "second", Value: &b}}
	report, err := conf.Load(sections, conf.Options{
		Environ: []string{"HOLDFAST_FIRST__POOL_SIZE=7", "HOLDFAST_SECOND__ON=true", "SYNC_FIRST__URL=here", "HOLDFAST_FIRST__NAME=y"},
		Aliases: []conf.Alias{{Env: "SYNC_FIRST__*", Path: "first.*"}},
	})
	if err != nil || a.Size != 7 || a.URL != "here" || a.Name != "y" || !b.On {
		t.Fatalf("read %+v and %+v, %v", a, b, err)
	}
	var problems conf.Problems
	problems.Addf("pool_size", "must be at least %d", 8)
	if got := problems.In("first", report); len(got) != 1 || got[0].String() != "HOLDFAST_FIRST__POOL_SIZE: must be at least 8" {
		t.Errorf("the problem is %v", got)
	}
	if text := conf.Reference(sections); !strings.Contains(text, "## [first]\n\nThe first.\n") || !strings.Contains(text, "`HOLDFAST_FIRST__POOL_SIZE` | Connections.") {
		t.Errorf("the reference is\n%s", text)
	}
	if text := conf.Example(sections); !strings.Contains(text, "[first]\n# Connections.\n#pool_size = 7\n") {
		t.Errorf("the example is\n%s", text)
	}
	_, err = conf.Load(sections, conf.Options{Environ: []string{"HOLDFAST_FIRST__POOL_SIZ=7"}})
	if err == nil || !strings.Contains(err.Error(), "did you mean HOLDFAST_FIRST__POOL_SIZE?") {
		t.Errorf("a misspelled key: %v", err)
	}
}
