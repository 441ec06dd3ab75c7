package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	copyRatioGoal  = 0.5
	copyMemoryGoal = 64 << 20
	copyPassGoal   = 5 * time.Second
)

func copyHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Owners with %d records, %d B each. The limit is a COPY per table from binary files (on SQLite, an INSERT from an attached file). "+
		"A copy's time covers the whole command with the comparison. Another copy runs under %d writes/s at %d connections.\n\n",
		o.size.manyRecords, o.size.rowsPayload, o.copyWrites, o.size.rowsCallers)
	fmt.Fprintln(out, "| copy | records | rows/s | limit rows/s | ratio | goal | peak memory | goal | writes/s meanwhile | last pass, read-only | goal |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
}

type copied struct {
	name     string
	records  int
	tables   []string // in foreign key order
	rows     *rows
	settings func(e *engine) []string
}

type copyTarget struct {
	name string
	url  func(ctx context.Context, database string) (string, error)
}

func measureCopy(ctx context.Context, o *options, e *engine, out io.Writer) error {
	sync, ext := newSync(), newExt()
	for _, c := range []*copied{
		{"syncstorage", o.copySync, []string{"user_collections", "bsos"}, sync.rows(), sync.settings},
		{"extstorage", o.copyExt, []string{"ext_storage_usage", "ext_storage_namespaces", "ext_storage_records", "ext_storage_changes"}, ext.rows(), ext.settings},
	} {
		to := copyTarget{e.name, func(_ context.Context, database string) (string, error) {
			return "sqlite:" + filepath.Join(os.TempDir(), "holdfast-bench-"+database+".db"), nil
		}}
		if e.postgres != nil {
			to.url = func(ctx context.Context, database string) (string, error) {
				return withDatabase(e.postgres.URL(), database), e.exec(ctx, `DROP DATABASE IF EXISTS `+database, `CREATE DATABASE `+database)
			}
		}
		if err := c.measure(ctx, o, &engine{name: "sqlite"}, to, out); err != nil {
			return err
		}
		if e.postgres == nil || o.citus == "" {
			continue
		}
		citus := copyTarget{"citus", func(ctx context.Context, database string) (string, error) { return newCitus(ctx, o.citus, database) }}
		if err := c.measure(ctx, o, e, citus, out); err != nil {
			return err
		}
	}
	return nil
}

func withDatabase(base, name string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	u.Path = "/" + name
	return u.String()
}

func newCitus(ctx context.Context, base, name string) (string, error) {
	var nodes []string // coordinator first
	var joins []string
	if err := connectTo(ctx, base, func(c *pgx.Conn) error {
		found, err := c.Query(ctx, `SELECT nodename, nodeport, groupid FROM pg_dist_node WHERE isactive ORDER BY groupid`)
		if err != nil {
			return err
		}
		var host, port string
		var group int
		_, err = pgx.ForEachRow(found, []any{&host, &port, &group}, func() error {
			nodes = append(nodes, net.JoinHostPort(host, port))
			join := "citus_add_node"
			if group == 0 {
				join = "citus_set_coordinator_host"
			}
			joins = append(joins, fmt.Sprintf(`SELECT %s('%s', %s)`, join, host, port))
			return nil
		})
		return err
	}); err != nil {
		return "", err
	}
	on := func(node, database string) string {
		u, err := url.Parse(withDatabase(base, database))
		if err != nil {
			panic(err)
		}
		u.Host = node
		return u.String()
	}
	for _, node := range nodes {
		if err := execOn(ctx, on(node, "postgres"), `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`, `CREATE DATABASE `+name); err != nil {
			return "", err
		}
		if err := execOn(ctx, on(node, name), `CREATE EXTENSION citus`); err != nil {
			return "", err
		}
	}
	return withDatabase(base, name), execOn(ctx, withDatabase(base, name), joins...)
}

func (c *copied) measure(ctx context.Context, o *options, from *engine, to copyTarget, out io.Writer) error {
	return onServer(ctx, o, from, c.settings(from), func(s *server) error {
		owners := max(1, c.records/o.size.manyRecords)
		if err := c.rows.grow(ctx, s, 1, owners, o.size.manyRecords, o.size.rowsPayload); err != nil {
			return err
		}
		target, err := to.url(ctx, "bench_"+c.name)
		if err != nil {
			return err
		}
		defer removeFile(target)
		alone, err := s.copies(ctx, c.name, target)
		if err != nil {
			return err
		}
		rows, bare, err := c.limit(ctx, target)
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		if _, err := s.command(ctx, "copy", c.name, "--reopen"); err != nil {
			return err
		}
		again, err := to.url(ctx, "bench_"+c.name+"_again")
		if err != nil {
			return err
		}
		defer removeFile(again)
		loaded, rate, err := c.underWrites(ctx, o, s, owners, again)
		if err != nil {
			return err
		}
		ratio, memory := bare.Seconds()/alone.took.Seconds(), max(alone.peak, loaded.peak)
		fmt.Fprintf(out, "| %s, %s → %s | %s | %s | %s | %.2f | %s%.2f | %s | %s%s | %.0f | %s | %s%s |\n",
			c.name, from.name, to.name, thousands(owners*o.size.manyRecords), thousands(int(perSecond(rows, alone.took))), thousands(int(perSecond(rows, bare))),
			ratio, missed(ratio < copyRatioGoal), copyRatioGoal, mb(memory), missed(memory > copyMemoryGoal), mb(copyMemoryGoal),
			rate, ms(loaded.pass), missed(loaded.pass > copyPassGoal), ms(copyPassGoal))
		return nil
	})
}

type copyRun struct {
	took, pass time.Duration
	peak       int64
	output     string
}

var lastPass = regexp.MustCompile(`the last pass took (\S+)`)

func (s *server) copies(ctx context.Context, service, target string) (copyRun, error) {
	r, err := s.command(ctx, "copy", service, "--to", target)
	if err != nil {
		return r, err
	}
	found := lastPass.FindStringSubmatch(r.output)
	if found == nil {
		return r, fmt.Errorf("copy does not say how long the last pass took:\n%s", r.output)
	}
	r.pass, err = time.ParseDuration(found[1])
	return r, err
}

func (s *server) command(ctx context.Context, args ...string) (r copyRun, err error) {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	var output bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &output, &output
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n, err := peak(cmd.Process.Pid); err == nil {
				r.peak = n
			}
			continue
		case err = <-ended:
		}
		r.took, r.output = time.Since(begun), output.String()
		if err != nil {
			err = fmt.Errorf("%v: %w\n%s", args, err, r.output)
		}
		return r, err
	}
}

func (c *copied) underWrites(ctx context.Context, o *options, s *server, owners int, target string) (r copyRun, rate float64, err error) {
	var all []credentials
	for _, n := range spread(1, owners, 1000) {
		owner, err := c.rows.owner(s, n)
		if err != nil {
			return r, 0, err
		}
		all = append(all, owner)
	}
	callers, hangUp, err := dialAll(ctx, slices.Repeat(all[:1], o.size.rowsCallers))
	if err != nil {
		return r, 0, err
	}
	defer hangUp()
	var writes atomic.Int64
	var g errgroup.Group
	stop, rewrite, begun := make(chan struct{}), c.rows.rewrite(o.size.rowsPayload), time.Now()
	for _, caller := range callers {
		g.Go(func() error {
			tick := time.NewTicker(time.Duration(len(callers)) * time.Second / time.Duration(o.copyWrites))
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return nil
				case <-tick.C:
				}
				caller.credentials = all[rand.IntN(len(all))]
				caller.retries = 0
				if err := rewrite(ctx, caller, rand.IntN(o.size.manyRecords)); err != nil {
					if errors.Is(err, errBusy) {
						return nil
					}
					return err
				}
				writes.Add(1)
			}
		})
	}
	r, err = s.copies(ctx, c.name, target)
	rate = perSecond(int(writes.Load()), time.Since(begun))
	close(stop)
	return r, rate, errors.Join(err, g.Wait())
}

func removeFile(target string) {
	if file, ok := strings.CutPrefix(target, "sqlite:"); ok {
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			_ = os.Remove(file + suffix)
		}
	}
}

func (c *copied) limit(ctx context.Context, target string) (rows int, took time.Duration, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if file, ok := strings.CutPrefix(target, "sqlite:"); ok {
		return c.limitLite(file, filepath.Join(dir, "rows.db"))
	}
	err = connectTo(ctx, target, func(conn *pgx.Conn) error {
		for _, t := range c.tables {
			if err := withCreated(filepath.Join(dir, t), func(f *os.File) error {
				tag, err := conn.PgConn().CopyTo(ctx, f, `COPY `+t+` TO STDOUT (FORMAT binary)`)
				rows += int(tag.RowsAffected())
				return err
			}); err != nil {
				return err
			}
		}
		for _, t := range slices.Backward(c.tables) {
			if _, err := conn.Exec(ctx, `TRUNCATE `+t+` CASCADE`); err != nil {
				return err
			}
		}
		if _, err := conn.Exec(ctx, `CHECKPOINT`); err != nil {
			return err
		}
		begun := time.Now()
		for _, t := range c.tables {
			f, err := os.Open(filepath.Join(dir, t))
			if err != nil {
				return err
			}
			_, err = conn.PgConn().CopyFrom(ctx, f, `COPY `+t+` FROM STDIN (FORMAT binary)`)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		took = time.Since(begun)
		return nil
	})
	return rows, took, err
}

func withCreated(name string, fn func(*os.File) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fn(f), f.Close())
}

func (c *copied) limitLite(file, other string) (rows int, took time.Duration, err error) {
	err = withFile(file, func(conn *sqlite.Conn) error {
		do := func(sql string, args ...any) error {
			return sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
				rows += s.ColumnInt(0)
				return nil
			}})
		}
		if err := errors.Join(do(`VACUUM INTO ?`, other), do(`ATTACH ? AS other`, other)); err != nil {
			return err
		}
		for _, t := range slices.Backward(c.tables) {
			if err := errors.Join(do(`SELECT count(*) FROM `+t), do(`DELETE FROM `+t)); err != nil {
				return err
			}
		}
		begun := time.Now()
		for _, t := range c.tables {
			// Without a condition, SQLite would copy B-tree cells instead of rows.
			if err := do(`INSERT INTO ` + t + ` SELECT * FROM other.` + t + ` WHERE true`); err != nil { //nolint:unqueryvet // a copy of the same table
				return err
			}
		}
		took = time.Since(begun)
		return nil
	})
	return rows, took, err
}
