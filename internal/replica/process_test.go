package replica

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
)

// childVariable makes the test binary run as a server or command, and contains the mode and folder.
const childVariable = "REPLICA_TEST_CHILD"

func TestMain(m *testing.M) {
	if what, root, ok := strings.Cut(os.Getenv(childVariable), ":"); ok {
		err := child(what, root)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child writes until the process is killed, and prints each acknowledged write's number and time. A server has a
// replica; a command opens and closes the file for each write.
func child(what, root string) error {
	path := filepath.Join(root, "one.db")
	if what == "command" {
		for n := 0; ; n++ {
			db, err := sqlitedb.Open(context.Background(), sqlitedb.Options{Path: path})
			if err != nil {
				return err
			}
			if err := writeRow(db, "command", n); err != nil {
				return err
			}
			if err := db.Close(); err != nil {
				return err
			}
		}
	}
	if what == "backup" {
		for {
			if err := backUp(root); err != nil {
				return err
			}
		}
	}
	db, err := sqlitedb.Open(context.Background(), sqlitedb.Options{Path: path})
	if err != nil {
		return err
	}
	r := New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": db}, Target: Folder(filepath.Join(root, "target")),
		Spool: filepath.Join(root, "spool"), Interval: 10 * time.Millisecond, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	r.sources[0].frames = 40
	r.Start()
	for n := 0; ; n++ {
		if err := writeRow(db, "server", n); err != nil {
			return err
		}
	}
}

func writeRow(db *sqlitedb.DB, writer string, n int) error {
	life := os.Getpid()
	err := db.Write(context.Background(), "row", func(c *sqlite.Conn) error {
		if err := createRows(c); err != nil {
			return err
		}
		return sqlitedb.Exec(c, `INSERT INTO r VALUES (?, ?, ?, randomblob(?))`, life, writer, n, n*37%6000)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "%d %s %d %d\n", life, writer, n, time.Now().UnixMicro())
	return err
}

func createRows(c *sqlite.Conn) error {
	return sqlitedb.Exec(c, `CREATE TABLE IF NOT EXISTS r (life INTEGER, writer TEXT, n INTEGER, body BLOB)`)
}

type row struct {
	life   int
	writer string
	n      int
	at     int64
}

// TestKilledProcesses repeatedly kills a server with a replica and commands on the same file. The newest restore point
// contains every write acknowledged before its time, without gaps.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "it kills many processes")
	root := testdb.MemoryFolder(t)
	target := Folder(filepath.Join(root, "target"))
	var all []row
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		all = append(all, runAndKill(t, root, time.Duration(800+round*150)*time.Millisecond, "server", "command")...)
		into := t.TempDir()
		done, err := Restore(t.Context(), Restoring{Target: target, Known: testNames, Trust: testTrust, Into: into})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		found := restoredRows(t, done.Files[0])
		before := 0
		for _, r := range all {
			if r.at < done.Point.Time.UnixMicro() {
				before++
				if !found[row{r.life, r.writer, r.n, 0}] {
					t.Fatalf("round %d: %+v was acknowledged before the point and is missing", round, r)
				}
			}
		}
		for r := range found {
			if r.n > 0 && !found[row{r.life, r.writer, r.n - 1, 0}] {
				t.Errorf("round %d: %+v is there without the one before", round, r)
			}
		}
		t.Logf("round %d: %d writes acknowledged, %d of them before the point, %d restored", round, len(all), before, len(found))
	}
}

func runAndKill(t *testing.T, root string, d time.Duration, processes ...string) (rows []row) {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for _, what := range processes {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+what+":"+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var problem strings.Builder
		cmd.Stderr = &problem
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var r row
				if _, err := fmt.Sscan(lines.Text(), &r.life, &r.writer, &r.n, &r.at); err == nil {
					mu.Lock()
					rows = append(rows, r)
					mu.Unlock()
				}
			}
			_ = cmd.Wait() // killed
			if problem.Len() > 0 {
				t.Errorf("%s: %s", what, problem.String())
			}
		})
	}
	running.Wait()
	return rows
}

func restoredRows(t *testing.T, path string) map[row]bool {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found := map[row]bool{}
	err = sqlitedb.ForEach(c, `SELECT life, writer, n FROM r`, func(s *sqlite.Stmt) error {
		found[row{s.ColumnInt(0), s.ColumnText(1), s.ColumnInt(2), 0}] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
