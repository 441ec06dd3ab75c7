package replica

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/testdb"
)

// TestContents adds and removes databases between points, waits, changes the rule and dismisses databases. After each
// deletion, the newest point with each database that was not dismissed is there and can be restored, and each database
// has the points that it would have if the others did not exist.
func TestContents(t *testing.T) { //nolint:gocognit // a model: its steps are short
	testdb.Sequential(t)
	t.Parallel()
	databases := []string{"one.db", "two.db", "three.db"}
	rules := []string{"", "1d", "7d 4w 6m", "3h 2d 1y"}
	kept := 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(time.Date(2026, 1, 10, 1, 0, 0, 0, time.UTC))
		rule := retention{}
		rule.rule, _ = ParseKeep(rules[len(rules)-1])
		newest, dismissed := map[string]Point{}, map[string]time.Time{}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) {
				h.now = h.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Minute, 5 * time.Hour, 26 * time.Hour, 40 * 24 * time.Hour}).Draw(rt, "time"))
				for _, database := range databases {
					switch isThere := rapid.Bool().Draw(rt, "is there"); {
					case !isThere: // it was moved to a database server
						delete(h.runs, database)
					case h.runs[database] == "":
						h.begin(database)
					default:
						h.txid[database]++
						h.add(database, h.txid[database], h.txid[database])
					}
				}
				if len(h.runs) == 0 {
					h.begin(databases[0])
				}
				h.publish()
				p := h.ordered()[len(h.points)-1]
				for database := range p.Files {
					newest[database] = p
				}
			},
			"change the rule": func(rt *rapid.T) { rule.rule, _ = ParseKeep(rapid.SampledFrom(rules).Draw(rt, "rule")) },
			"be a replica":    func(*rapid.T) { rule.keep, rule.fine, rule.every = 7*24*time.Hour, fine, mergeEvery },
			"be backups":      func(*rapid.T) { rule.keep, rule.fine, rule.every = 0, 0, 0 },
			"dismiss a database": func(rt *rapid.T) {
				dismissed[rapid.SampledFrom(databases).Draw(rt, "database")] = h.now
			},
			"tidy": func(rt *rapid.T) {
				rule.now, rule.dismissed = h.now, dismissed
				before := maps.Clone(h.points)
				for _, name := range unneeded(h.names, h.points, h.files(), current{runs: h.runs}, rule) {
					delete(h.points, name)
					h.names = without(h.names, name)
				}
				for database, p := range newest {
					if until, is := dismissed[database]; is && !p.Time.After(until) {
						continue
					}
					if _, there := h.points[pointName(p)]; !there || !h.restorable()[pointName(p)] {
						rt.Fatalf("the newest point with %s, %d, is gone", database, p.Number)
					}
					kept++
					alone := map[string]Point{}
					for name, p := range before {
						if position, has := p.Files[database]; has {
							p.Files = map[string]Position{database: position}
							alone[name] = p
						}
					}
					names, _ := rule.choose(alone, h.files())
					for name := range names {
						if _, there := h.points[name]; !there {
							rt.Fatalf("%s is gone, although a server with only %s keeps it", name, database)
						}
					}
				}
			},
			"": func(rt *rapid.T) {
				if len(h.points) > 0 && !slices.ContainsFunc(h.ordered(), func(p Point) bool { return p.Number == h.number }) {
					rt.Fatal("the newest point is gone")
				}
			},
		})
	})
	if kept == 0 && !testing.Short() { // then rapid makes only a few short walks
		t.Error("no walk kept a point")
	}
}

func TestLackingKeepsItsArgument(t *testing.T) {
	t.Parallel()
	day := func(n int, files ...string) PointContent { return PointContent{time.Unix(int64(n)*86400, 0), files} }
	all := []PointContent{day(3, "a"), day(1, "a", "b"), day(2, "a", "c"), day(9, "other")}
	got := Lacking(all[:3], map[string]time.Time{"c": day(2).Time})
	if len(got) != 1 || !got["b"].Equal(day(1).Time) {
		t.Errorf("the newest point lacks %v, want b of day 1", got)
	}
	if !all[3].Time.Equal(day(9).Time) {
		t.Error("Lacking wrote behind the end of its argument")
	}
}
