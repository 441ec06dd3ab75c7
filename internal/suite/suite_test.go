//test:unraced its goroutines share nothing

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/errcode"
)

func TestRun(t *testing.T) {
	t.Parallel()
	type env struct{ group, test string }
	var mu sync.Mutex
	ran := map[string]int{}
	serial := 0
	one := Case[env]{"One", func(t *testing.T, e env) {
		mu.Lock()
		defer mu.Unlock()
		if e.test != t.Name() {
			t.Errorf("the environment was made for %s", e.test)
		}
		ran[e.group]++
	}}
	two := Case[env]{"Two", func(t *testing.T, _ env) { t.Error("this case is exempt") }}
	ordered := func(i int) func(*testing.T, env) {
		return func(t *testing.T, _ env) {
			if serial != i {
				t.Errorf("case %d ran after %d others", i, serial)
			}
			serial++
		}
	}
	t.Run("Suite", func(t *testing.T) {
		Suite[env]{
			Groups: []Group[env]{
				{Name: "A", Cases: []Case[env]{one, two}},
				{Name: "B", Cases: []Case[env]{one}},
				{Name: "C", Cases: []Case[env]{{"0", ordered(0)}, {"1", ordered(1)}, {"2", ordered(2)}}, Serial: true},
			},
			New:    func(t *testing.T, g Group[env]) env { return env{g.Name, t.Name()} },
			Exempt: map[string]string{"A/Two": "it always fails"},
		}.Run(t)
	})
	if ran["A"] != 1 || ran["B"] != 1 || serial != 3 {
		t.Errorf("ran %v and %d in order", ran, serial)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	c := Case[int]{Name: "One"}
	got := Suite[int]{
		Groups: []Group[int]{{Name: "A", Cases: []Case[int]{c, c}}, {Name: "B", Cases: []Case[int]{c}}},
		Exempt: map[string]string{"A/Gone": "it was renamed", "B/One": ""},
		Soak:   Soak{Cases: []string{"A/One", "A/Gone"}, But: []string{"B", "C"}},
	}.problems()
	want := []string{
		"two cases are called A/One", "A/Gone is exempt and does not exist", "B/One is exempt without a reason",
		"A/Gone is left to a soak and does not exist", "C is not left to a soak and does not exist", "cases are left to a soak without a reason",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSoak(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Soak{"A/One": {Cases: []string{"A/One"}}, "B/One": {But: []string{"A"}}, "A/Two A/One": {But: []string{"B"}}} {
		var left []string
		for _, c := range [][2]string{{"A", "Two"}, {"A", "One"}, {"B", "One"}} {
			if s.leaves(c[0], c[1]) {
				left = append(left, c[0]+"/"+c[1])
			}
		}
		if got := strings.Join(left, " "); got != name {
			t.Errorf("left to a soak: %s, want %s", got, name)
		}
	}
	if none := (Soak{}); none.leaves("A", "One") {
		t.Error("without a soak a case is left to it")
	}
}

type recorder struct{ failures []string }

func (*recorder) Helper()                             {}
func (*recorder) Context() context.Context            { return context.Background() }
func (r *recorder) Error(args ...any)                 { r.failures = append(r.failures, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

func TestComparisons(t *testing.T) {
	t.Parallel()
	refused := errcode.New(errcode.Conflict, "refused")
	lost := func(err error) bool { return errors.Is(err, refused) }
	for name, c := range map[string]struct {
		run  func(t TB)
		want string // part of the failure, or ""
	}{
		"equal":               {func(t TB) { Equal(t, "x", []int{1}, []int{1}) }, ""},
		"equal, empty":        {func(t TB) { Equal(t, "x", []int{}, nil) }, ""},
		"equal, not":          {func(t TB) { Equal(t, "x", []int{1}, []int{2}) }, "x: [1], want [2]"},
		"equal, nil and some": {func(t TB) { Equal(t, "x", nil, []int{2}) }, "x: [], want [2]"},
		"must":                {func(t TB) { Must(t, "x", nil) }, ""},
		"must, not":           {func(t TB) { Must(t, "x", refused) }, "x: "},
		"fault":               {func(t TB) { WantCode(t, "x", refused, errcode.Denied, errcode.Conflict) }, ""},
		"fault, another":      {func(t TB) { WantCode(t, "x", refused, errcode.Denied) }, "x: "},
		"fault, none":         {func(t TB) { WantCode(t, "x", nil, errcode.Denied) }, "x: "},
		"winners":             {func(t TB) { Equal(t, "n", Winners(t, []error{nil, refused, nil}, lost), 2) }, ""},
		"winners, not":        {func(t TB) { Winners(t, []error{nil, errors.New("broken")}, lost) }, "broken"},
	} {
		r := &recorder{}
		c.run(r)
		if (len(r.failures) > 0) != (c.want != "") || !strings.Contains(strings.Join(r.failures, "\n"), c.want) {
			t.Errorf("%s: reported %q, want %q", name, r.failures, c.want)
		}
	}
}

func TestFailEach(t *testing.T) {
	t.Parallel()
	var p Trip
	var failed []string
	prepared := 0
	p.FailEach(t, "the operation", func() (func() error, func(string)) {
		prepared++
		return func() error {
			for _, point := range []string{"begin", "write", "commit"} {
				if err := p.Fault(point); err != nil {
					return err
				}
			}
			return nil
		}, func(what string) { failed = append(failed, what) }
	})
	want := []string{`the operation that fails at "begin"`, `the operation that fails at "write"`, `the operation that fails at "commit"`}
	if !slices.Equal(failed, want) || prepared != 4 {
		t.Errorf("prepared %d times, failed: %q", prepared, failed)
	}
}
