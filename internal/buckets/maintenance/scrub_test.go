package maintenance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/clock"
)

const scrubEvery = 30 * 24 * time.Hour

// scrubber returns a new process's scrubber, which does not wait.
func (s *site) scrubber(now clock.Clock) *maintenance.Scrubber {
	o := s.options()
	o.Clock, o.Folder = now, filepath.Join(s.t.TempDir(), "scrub")
	return &maintenance.Scrubber{
		Options: o, Every: scrubEvery, Rate: 1 << 50, Nodes: func() []string { return nodeIDs },
		Exclusively: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) },
	}
}

func (s *site) scrub(scrubber *maintenance.Scrubber) (rounds int) {
	s.t.Helper()
	for {
		worked, err := scrubber.Round(s.t.Context())
		s.must(err)
		if !worked {
			return rounds
		}
		rounds++
	}
}

// marks returns the damage records as "problem node object state".
func (s *site) marks() (all []string) {
	s.t.Helper()
	marks, err := s.store.Marked(s.t.Context(), buckets.DamageQuery{Limit: 100})
	s.must(err)
	for _, m := range marks {
		all = append(all, fmt.Sprint(m.Problem, " ", m.Node, " ", m.Name, " ", m.State))
	}
	return all
}

func (s *site) wantMarks(what string, want ...string) {
	s.t.Helper()
	if got := s.marks(); !slices.Equal(got, want) {
		s.t.Errorf("%s: marks %q, want %q", what, got, want)
	}
}

func (s *site) repair() map[maintenance.Outcome]int {
	s.t.Helper()
	marks, err := s.store.Marked(s.t.Context(), buckets.DamageQuery{Limit: 100})
	s.must(err)
	outcomes := map[maintenance.Outcome]int{}
	s.must(maintenance.Repair(s.t.Context(), s.options(), marks, func(_ buckets.Damage, o maintenance.Outcome) { outcomes[o]++ }))
	return outcomes
}

func (s *site) wantRepair(what string, want map[maintenance.Outcome]int) {
	s.t.Helper()
	if got := s.repair(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: outcomes %v, want %v", what, got, want)
	}
}

func (s *site) corrupt(node string, o *buckets.Object) {
	s.t.Helper()
	name := s.file(node, o)
	text, err := os.ReadFile(name)
	s.must(err)
	text[len(text)/2] ^= 1
	s.must(os.WriteFile(name, text, 0o600))
}

// TestScrub checks that a pass finds wrong and missing copies and a killed write's file. Copies are repaired, and the
// file is removed.
func TestScrub(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		a, b := s.put("a", large('a')), s.put("b", large('b'))
		s.upload("c", "part one", "part two")
		s.put("garbage", large('g'))
		s.remove("garbage")
		s.age()
		young := s.file(a.Sharks[0], &a) + "1"
		stray := s.file(b.Sharks[0], &b) + "0"
		s.must(os.WriteFile(stray, []byte("of a write that was killed"), 0o600))
		s.age()
		s.must(os.WriteFile(young, []byte("of a write that goes on"), 0o600))
		s.corrupt(a.Sharks[0], &a)
		s.must(os.Remove(s.file(b.Sharks[1], &b)))

		now := clock.NewManual(time.Now())
		var read atomic.Int64
		scrubber := s.scrubber(now.Now)
		scrubber.Read = func(_ string, copies, _ int64) { read.Add(copies) }
		if rounds := s.scrub(scrubber); rounds != 1 {
			t.Errorf("%d rounds", rounds)
		}
		want := []string{"corrupt " + a.Sharks[0] + " a damaged", "missing " + b.Sharks[1] + " b damaged"}
		if a.Sharks[0] > b.Sharks[1] || a.Sharks[0] == b.Sharks[1] && s.path(&a) > s.path(&b) {
			slices.Reverse(want)
		}
		s.wantMarks("after the scrub", want...)
		if _, err := os.Stat(stray); !os.IsNotExist(err) {
			t.Errorf("the old file: %v", err)
		}
		if read.Load() != 10 {
			t.Errorf("%d copies were read", read.Load())
		}
		s.must(os.Remove(young)) // was within the grace period
		var copies, found int64
		progress, err := s.store.Scrubs(t.Context())
		s.must(err)
		for _, p := range progress {
			copies, found = copies+p.Copies, found+p.Found
			if !p.Done || p.After != "" || p.Ended != buckets.At(now.Now()) || p.Bytes != p.Total {
				t.Errorf("progress: %+v", p)
			}
		}
		if len(progress) != 3 || copies != 10 || found != 3 {
			t.Errorf("%d copies, %d findings: %+v", copies, found, progress)
		}

		s.wantRepair("repair", map[maintenance.Outcome]int{maintenance.WasRepaired: 2})
		s.wantMarks("after the repair")
		s.wantAudit("after the repair", maintenance.AuditOptions{Verify: true})
		s.wantFiles()
		s.want("a", large('a'))
		s.want("b", large('b'))

		if rounds := s.scrub(scrubber); rounds != 0 {
			t.Errorf("%d rounds right after the pass", rounds)
		}
		now.Advance(scrubEvery)
		if rounds := s.scrub(scrubber); rounds != 1 {
			t.Errorf("%d rounds when the next pass is due", rounds)
		}
	})
}

// TestScrubContinues checks that another process can continue a pass using only the database.
func TestScrubContinues(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		for i := range 20 {
			o := s.put(fmt.Sprint(i), large(byte(i)))
			if i%5 == 0 {
				s.corrupt(o.Sharks[0], &o)
			}
		}
		var read atomic.Int64
		rounds := 0
		for {
			scrubber := s.scrubber(fast())
			scrubber.Rate = 210_000 * 3 / 60 // three bodies per one-minute round
			scrubber.Read = func(_ string, copies, _ int64) { read.Add(copies) }
			worked, err := scrubber.Round(t.Context())
			s.must(err)
			if !worked {
				break
			}
			rounds++
		}
		if rounds < 3 || read.Load() != 40 {
			t.Errorf("%d rounds have read %d copies", rounds, read.Load())
		}
		if got := s.marks(); len(got) != 4 {
			t.Errorf("marks: %q", got)
		}
	})
}

func fast() clock.Clock {
	now := clock.NewManual(time.Now())
	return func() time.Time {
		now.Advance(time.Hour)
		return now.Now()
	}
}

// TestRepairOutcomes checks that a record is removed if its copy is good, unreferenced, or on a removed node.
func TestRepairOutcomes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		lost, gone, good := s.put("lost", large('l')), s.put("gone", large('g')), s.put("good", large('o'))
		for _, node := range lost.Sharks {
			s.corrupt(node, &lost)
		}
		s.corrupt(gone.Sharks[0], &gone)
		mark := func(node string, o *buckets.Object) buckets.Damage {
			return buckets.NewDamage(buckets.Copy{Node: node, Path: s.path(o)}, "corrupt", buckets.At(time.Now()))
		}
		removed := buckets.Node{ID: "south:1", URL: "file:///srv", State: buckets.NodeRemoved}
		s.must(s.store.SetNode(t.Context(), removed))
		s.must(s.store.Mark(t.Context(), []buckets.Damage{
			mark(lost.Sharks[0], &lost), mark(lost.Sharks[1], &lost), mark(gone.Sharks[0], &gone), mark(good.Sharks[0], &good), mark(removed.ID, &good),
		}))
		s.remove("gone")
		s.wantRepair("the first", map[maintenance.Outcome]int{maintenance.IsLost: 2, maintenance.IsGood: 3})
		nodes := slices.Sorted(slices.Values(lost.Sharks))
		const isLost = " lost " + "lost" // state and object
		s.wantMarks("lost", "corrupt "+nodes[0]+isLost, "corrupt "+nodes[1]+isLost)
		marks, err := s.store.Marked(t.Context(), buckets.DamageQuery{State: buckets.Lost, Limit: 9})
		s.must(err)
		for _, m := range marks {
			if m.Owner != s.owner || m.Bucket != s.bucket.ID || m.Attempts != 1 || m.Error != "no good copy is left" {
				t.Errorf("the mark of a lost copy: %+v", m)
			}
		}
		s.remove("lost")
		s.wantRepair("after the object was deleted", map[maintenance.Outcome]int{maintenance.IsGood: 2})
		s.wantMarks("none")
	})
}

// TestAuditRemovesMarks checks that records stay if there is no good copy or the damage was seen again after the
// repair.
func TestAuditRemovesMarks(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		wrong, missing, lost, again := s.put("wrong", large('w')), s.put("missing", large('m')), s.put("lost", large('l')), s.put("again", large('a'))
		now := time.Now()
		var marks []buckets.Damage
		mark := func(node string, o *buckets.Object, at time.Time) {
			marks = append(marks, buckets.NewDamage(buckets.Copy{Node: node, Path: s.path(o)}, "corrupt", buckets.At(at)))
		}
		s.corrupt(wrong.Sharks[0], &wrong)
		mark(wrong.Sharks[0], &wrong, now)
		s.must(os.Remove(s.file(missing.Sharks[1], &missing)))
		mark(missing.Sharks[1], &missing, now)
		for _, node := range lost.Sharks {
			s.corrupt(node, &lost)
			mark(node, &lost, now)
		}
		s.corrupt(again.Sharks[0], &again)
		mark(again.Sharks[0], &again, now.Add(time.Hour))
		s.must(s.store.Mark(t.Context(), marks))
		s.audit(maintenance.AuditOptions{Verify: true})
		if n := len(s.marks()); n != len(marks) {
			t.Errorf("an audit that repairs nothing left %d marks of %d", n, len(marks))
		}
		_, result := s.audit(maintenance.AuditOptions{Verify: true, Repair: true})
		if result.Left != 2 {
			t.Errorf("%d findings are left, want those of the lost copies", result.Left)
		}
		left, err := s.store.Marked(t.Context(), buckets.DamageQuery{Limit: 9})
		s.must(err)
		for _, m := range left {
			if m.Path != s.path(&lost) && m.Path != s.path(&again) {
				t.Errorf("the mark of %s on %s is left", m.Path, m.Node)
			}
		}
		if len(left) != 3 {
			t.Errorf("%d marks are left, want 3", len(left))
		}
	})
}

// TestRepairWaitsForNode checks that a failed node does not count as a node without the copy.
func TestRepairWaitsForNode(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		o := s.put("a", large('a'))
		node := o.Sharks[0]
		s.corrupt(node, &o)
		s.must(s.store.Mark(t.Context(), []buckets.Damage{buckets.NewDamage(buckets.Copy{Node: node, Path: s.path(&o)}, "missing", buckets.At(time.Now()))}))
		marker := filepath.Join(s.dirs[node], ".holdfast-node")
		s.must(os.Rename(marker, marker+"-away"))
		s.wantRepair("while the node is away", map[maintenance.Outcome]int{maintenance.IsLeft: 1})
		if now := s.row("a"); !slices.Equal(now.Sharks, o.Sharks) {
			t.Errorf("nodes: %v, before %v", now.Sharks, o.Sharks)
		}
		s.wantMarks("while the node is away", "missing "+node+"  damaged")
		s.must(os.Rename(marker+"-away", marker))
		marks, err := s.store.Marked(t.Context(), buckets.DamageQuery{Limit: 9})
		s.must(err)
		marks[0].Problem = "corrupt"
		s.must(s.store.Mark(t.Context(), marks))
		s.wantRepair("when it works again", map[maintenance.Outcome]int{maintenance.WasRepaired: 1})
		s.want("a", large('a'))
		s.wantAudit("at the end", maintenance.AuditOptions{Verify: true})
	})
}
