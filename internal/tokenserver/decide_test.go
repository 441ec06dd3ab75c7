package tokenserver_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/storetest"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range storetest.Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			plan, err := tokenserver.Decide(c.State, c.SignIn)
			if c.Refusal != nil {
				var got *tokenserver.Refusal
				if !errors.As(err, &got) || !reflect.DeepEqual(got, c.Refusal) || !errcode.Is(err, errcode.Denied) {
					t.Fatalf("got %v, want %v", err, c.Refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if plan != c.Plan {
				t.Errorf("got  %+v\nwant %+v", plan, c.Plan)
			}
		})
	}
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	for _, c := range storetest.AllocateCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(c.Nodes)
			taken, changed, err := tokenserver.Allocate(c.Nodes, storetest.AllocateRate, c.Fixed)
			if c.Changed == nil {
				if !errors.Is(err, tokenserver.ErrNoNode) || changed != nil {
					t.Errorf("got %+v, %v; want ErrNoNode", changed, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(changed, c.Changed) || taken != c.Changed[len(c.Changed)-1] {
				t.Errorf("got  %+v, %+v, %v\nwant %+v", taken, changed, err, c.Changed)
			}
			if !reflect.DeepEqual(c.Nodes, before) {
				t.Errorf("the argument was changed to %+v", c.Nodes)
			}
		})
	}
}

// TestDecideRetiredWithoutNode is not in the suite, because no accounts server issues this generation.
func TestDecideRetiredWithoutNode(t *testing.T) {
	t.Parallel()
	gone := tokenserver.User{Generation: tokenserver.Retired, Replaced: true, ReplacedAt: 1}
	_, err := tokenserver.Decide(tokenserver.AccountState{Users: []tokenserver.User{gone}},
		tokenserver.SignIn{Generation: tokenserver.At(tokenserver.Retired), Now: time.Unix(1, 0)})
	if !errcode.Is(err, errcode.Internal) {
		t.Errorf("got %v", err)
	}
}
