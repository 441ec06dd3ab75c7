package tokenserver

import (
	"errors"
	"reflect"
	"testing"

	"holdfast/internal/fault"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			plan, err := Decide(c.Standing, c.SignIn)
			if c.Refusal != nil {
				var got *Refusal
				if !errors.As(err, &got) || !reflect.DeepEqual(got, c.Refusal) || !fault.Is(err, fault.Denied) {
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

func TestDecideRetiredWithoutNode(t *testing.T) {
	t.Parallel()
	_, err := Decide(standing(row(Retired, "aa", 5).at(1000, 2000).astray()), signIn(Retired, "aa", 5))
	if !fault.Is(err, fault.Internal) {
		t.Errorf("got %v", err)
	}
}

func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
	}
}
