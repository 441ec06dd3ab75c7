//test:unraced its goroutines share nothing

package settings_test

import (
	"testing"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

func keys(problems conf.Problems) (all string) {
	for _, p := range problems {
		all += p.Key + " "
	}
	return all
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	d, s := settings.DefaultDatabase(), settings.DefaultSweep()
	if got := keys(d.Check()) + keys(s.Check()); got != "" {
		t.Errorf("problems with %s", got)
	}
}

func TestCheckNamesEverySetting(t *testing.T) {
	t.Parallel()
	d := settings.Database{PoolLifespan: -1, PoolMaxIdle: -time.Hour}
	want := "database_pool_max_size database_pool_connection_timeout database_statement_timeout database_pool_connection_lifespan database_pool_connection_max_idle "
	if got := keys(d.Check()); got != want {
		t.Errorf("problems with %s", got)
	}
	s := settings.Sweep{SweepEvery: -1, SweepAfter: -1}
	if got := keys(s.Check()); got != "sweep_interval sweep_after sweep_limit " {
		t.Errorf("problems with %s", got)
	}
}
