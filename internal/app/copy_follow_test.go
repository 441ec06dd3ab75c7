package app_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/copying"
	"holdfast/internal/db/engine"
	"holdfast/internal/operate"
	"holdfast/internal/readonly"
	"holdfast/internal/testdb"
)

type followed struct {
	Service, Kind, Role, From, To, Step, By, Problem string
	Running                                          bool
	Done, Total                                      int64
	Began, At                                        time.Time
}

func follow(t *testing.T, name string, db *engine.Database) (rows []followed, states string) {
	t.Helper()
	declared := app.Services()
	one := declared[slices.IndexFunc(declared, func(s service.Service) bool { return s.Name == name })]
	running := &service.Running{Name: name, Tables: one.Tables, Opened: &service.Opened{Databases: []*engine.Database{db}}}
	all := overview.Operations(&overview.Operated{ReadOnly: readonly.Switch{Services: []*service.Running{running}}})
	list := all[slices.IndexFunc(all, func(o operate.Operation) bool { return o.Path == "copies" })]
	found, err := list.Run(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct{ Copies []followed }
	text, err := json.Marshal(found.JSON())
	if err == nil {
		err = json.Unmarshal(text, &decoded)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, row := range found.Rows {
		for _, c := range row.Cells {
			if s, ok := c.(interface{ Cell() service.Cell }); ok {
				states += s.Cell().Text + "; "
			}
		}
	}
	return decoded.Copies, states
}

func awaitStep(t *testing.T, name string, db *engine.Database) followed {
	t.Helper()
	for deadline := time.Now().Add(testdb.Patient(20 * time.Second)); ; {
		rows, states := follow(t, name, db)
		if len(rows) == 1 && rows[0].Step != "" {
			if !strings.Contains(states, "running; "+rows[0].Step+": ") {
				t.Errorf("people read %q", states)
			}
			return rows[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no progress: %+v", rows)
		}
	}
}

func wantFollowed(t *testing.T, c *copying.Copy, began time.Time) {
	t.Helper()
	for role, db := range map[string]*engine.Database{"source": c.Source, "target": c.Target} {
		one := awaitStep(t, c.Service, db)
		if one.Service != c.Service || one.Kind != "copy" || one.Role != role || !one.Running || one.From != c.Source.Where || one.To != c.Target.Where || !strings.HasPrefix(one.By, "process ") ||
			one.Done > one.Total || one.Total == 0 || one.At.Before(one.Began) || one.Began.Before(began.Add(-time.Second)) {
			t.Errorf("%+v", one)
		}
	}
}

// TestFollowCopies checks that servers on the source and the target show a copy's progress and interruptions, and
// nothing after its completion.
func TestFollowCopies(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(testing.TB) string{"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase, "spanner": spannerURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, _ := blockedCopy(t, sqliteURL(t), to(t))
			began := time.Now()
			c.BeforeStep = func(point string) error {
				if point != "close" {
					return nil
				}
				wantFollowed(t, c, began)
				return errCrash
			}
			if err := c.Run(t.Context()); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if rows, _ := follow(t, c.Service, c.Source); len(rows) != 0 {
				t.Errorf("the source: %+v", rows)
			}
			if rows, states := follow(t, c.Service, c.Target); len(rows) != 1 || rows[0].Running || !strings.Contains(states, "interrupted") {
				t.Errorf("the target: %+v, %q", rows, states)
			}
			c.BeforeStep = nil
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, db := range []*engine.Database{c.Source, c.Target} {
				if rows, _ := follow(t, c.Service, db); len(rows) != 0 {
					t.Errorf("afterwards: %+v", rows)
				}
			}
		})
	}
}

// TestFollowKilledCopies checks the claim of a killed process.
func TestFollowKilledCopies(t *testing.T) {
	t.Parallel()
	c, reached, goOn := blockedCopy(t, sqliteURL(t), sqliteURL(t))
	ended := make(chan error, 1)
	block := c.BeforeStep
	c.BeforeStep = onlyFirst(block)
	go func() { ended <- c.Run(t.Context()) }()
	<-reached
	claimBy(t, c, `killed","at":1700000000000,"doing":"<script>","by":"a process`)
	rows, states := follow(t, c.Service, c.Source)
	if len(rows) != 1 || rows[0].Running || !strings.Contains(states, "no sign for ") || rows[0].Step != "<script>" {
		t.Errorf("%+v, %q", rows, states)
	}
	goOn <- errCrash
	<-ended
}

func TestFollowImports(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	from.run(t, from.many(1, 100))
	m := newImport(t, from, sqliteURL(t), sqliteURL(t))
	m.BeforeStep = func(point string) error {
		if point != "stopped" {
			return nil
		}
		for _, p := range m.Parts {
			rows, _ := follow(t, p.Service.Name, p.Database)
			if len(rows) == 1 && rows[0].Total > 0 {
				rows[0] = awaitStep(t, p.Service.Name, p.Database)
			}
			if len(rows) != 1 || rows[0].Kind != "import" || rows[0].Role != "target" || !rows[0].Running || !strings.HasPrefix(rows[0].From, "mysql://") {
				t.Errorf("%+v", rows)
			}
		}
		return errCrash
	}
	if err := m.Run(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if rows, states := follow(t, m.Parts[0].Service.Name, m.Parts[0].Database); len(rows) != 1 || rows[0].Kind != "import" || !strings.Contains(states, "interrupted") {
		t.Errorf("%+v, %q", rows, states)
	}
}
