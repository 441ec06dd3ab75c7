package work_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/work"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m work.Meter
		inner, cancel := context.WithCancel(work.With(t.Context(), &m))
		defer cancel()
		if work.Of(inner) != &m || work.Of(t.Context()) != nil {
			t.Fatal("a context has another meter")
		}
		m.Start()
		time.Sleep(1 * time.Second)
		m.Wait()
		time.Sleep(10 * time.Second)
		m.Wait() // a concurrent wait
		time.Sleep(100 * time.Second)
		m.Resume()
		time.Sleep(1000 * time.Second)
		m.Resume()
		time.Sleep(2 * time.Second)
		m.Add(20 * time.Second)
		if got := m.Stop(); got != 23*time.Second {
			t.Errorf("%v, want 23s", got)
		}
		time.Sleep(time.Second)
		m.Wait()
		m.Start() // during a wait
		time.Sleep(time.Second)
		m.Resume()
		time.Sleep(3 * time.Second)
		if got := m.Stop(); got != 3*time.Second {
			t.Errorf("after a wait that began before: %v, want 3s", got)
		}
	})
}

func TestNoMeter(t *testing.T) {
	t.Parallel()
	m := work.Of(t.Context())
	m.Wait()
	m.Add(time.Second)
	m.Resume()
}
