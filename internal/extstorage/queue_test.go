package extstorage_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

func enter(t *testing.T, q *ext.WriteQueue, o ext.Owner, alone bool) ext.Turn {
	t.Helper()
	turn, err := q.Enter(t.Context(), o, alone)
	if err != nil {
		t.Error(err)
	}
	return turn
}

func TestWriteQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, o := ext.NewWriteQueue(2), ext.Owner{Tenant: "t", Install: "i"}
		var (
			mu    sync.Mutex
			order []int
		)
		first, second := enter(t, q, o, false), enter(t, q, o, false)
		turns := make(chan ext.Turn, 5)
		for i, alone := range []bool{false, true, false, false, true} {
			go func() {
				turn := enter(t, q, o, alone)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				turns <- turn
			}()
			synctest.Wait()
		}
		entered := func(want ...int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(order); !slices.Equal(order, want) {
				t.Errorf("%v have entered, want %v", order, want)
			}
		}
		enter(t, q, ext.Owner{Tenant: "t", Install: "other"}, true).Leave()
		entered()
		first.Leave()
		entered(0)
		second.Leave()
		entered(0) // 1 is exclusive
		(<-turns).Leave()
		entered(0, 1)
		(<-turns).Leave()
		entered(0, 1, 2, 3)
		(<-turns).Leave()
		entered(0, 1, 2, 3)
		(<-turns).Leave()
		entered(0, 1, 2, 3, 4)
		(<-turns).Leave()
		enter(t, q, o, true).Leave()
	})
}

func TestWriteQueueEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, o := ext.NewWriteQueue(2), ext.Owner{Tenant: "t", Install: "i"}
		here := enter(t, q, o, false)
		ctx, cancel := context.WithCancel(t.Context())
		var ended error
		go func() { _, ended = q.Enter(ctx, o, true) }()
		synctest.Wait()
		behind := false
		go func() {
			enter(t, q, o, false).Leave()
			behind = true
		}()
		synctest.Wait()
		if behind {
			t.Error("one that came later has overtaken")
		}
		cancel()
		synctest.Wait()
		if !behind || !errcode.Is(ended, errcode.Unavailable) {
			t.Errorf("the one behind has entered: %t; the one that ended: %v", behind, ended)
		}
		here.Leave()
		enter(t, q, o, true).Leave()
	})
}
