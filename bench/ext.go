package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"holdfast/internal/auth/bearer"
	ext "holdfast/internal/extstorage"
	load "holdfast/internal/workload/ext"
)

// Every owner is an install with its own tenant.
type extLoad struct{ secret string }

func newExt() *extLoad { return &extLoad{secret: ownSecret} }

func (w *extLoad) settings(e *engine) []string {
	return append(e.url("EXTSTORAGE"), "HOLDFAST_EXTSTORAGE__TOKEN_SECRET="+w.secret, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false")
}

func (w *extLoad) owner(s *server, n int) (credentials, error) {
	tenant, install := owner(n)
	token, err := load.Token{Tenant: tenant, Install: install, Access: map[string]string{
		extPutNamespace: "rw", extSchemaNamespace: "rw", extListNamespace: "rw", extBulkNamespace: "rw",
		extBatchNamespace: "rw", extOtherNamespace: "rw", extCounterNamespace: "rw",
	}, Begin: time.Now(), Life: 24 * time.Hour}.Sign(bearer.Key{ID: ext.OwnTokenKey(w.secret), Alg: bearer.HS256, Text: w.secret})
	return credentials{
		Endpoint: "http://" + s.listen + load.InstallPath(install),
		sign:     func(req *http.Request) error { req.Header.Set("Authorization", "Bearer "+token); return nil },
	}, err
}

// extFirst is below the first install's number.
const extFirst = 100_000_000_000

const (
	extTenant  = "00000000-0000-4000-8000-"
	extInstall = "00000000-0000-4000-9000-"
)

func owner(n int) (tenant, install string) {
	number := fmt.Sprintf("%012d", extFirst+n)
	return extTenant + number, extInstall + number
}

func (w *extLoad) operations() (all []operation) {
	for _, work := range extWorks() {
		op := operation{name: work.name, goals: work.goals, most: 16, do: work.do}
		if work.writes() {
			op.settle = extPublished
		}
		all = append(all, op)
	}
	return all
}

func (w *extWork) do(ctx context.Context, c *caller, i int) error {
	answer, err := c.send(ctx, w.method, w.path(i), w.body, "")
	if found := bytes.Count(answer, []byte(`"revision":`)); err == nil && i == 0 && found != w.finds {
		err = fmt.Errorf("%d records, want %d, in %.200s", found, w.finds, answer)
	}
	return err
}

func (w *extLoad) fill(ctx context.Context, _ *engine, installs []credentials) error {
	all, hangUp, err := dialAll(ctx, installs)
	if err != nil {
		return err
	}
	defer hangUp()
	_, _, err = drive(ctx, len(all), times(1), func(ctx context.Context, i, _ int) error {
		c := all[i]
		schemas := "/namespaces/" + extSchemaNamespace + "/schemas"
		if _, err := c.send(ctx, http.MethodPost, schemas, []byte(`{"schema":`+extSchema+`}`), ""); err != nil {
			return err
		}
		if _, err := c.send(ctx, http.MethodPatch, schemas+"/1", []byte(`{"status":"active"}`), ""); err != nil {
			return err
		}
		for _, ops := range extFill() {
			for some := range slices.Chunk(ops, extBulk) {
				if _, err := c.send(ctx, http.MethodPost, "/batch", extBatch(some), ""); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// extPublished waits until the relay has published all audit events, which would disturb the next measurement.
func extPublished(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	const waiting = `SELECT EXISTS (SELECT 1 FROM ext_storage_outbox)`
	until := func(left func() (bool, error)) error {
		for {
			if left, err := left(); err != nil || !left {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("events are not published: %w", ctx.Err())
			}
		}
	}
	if s.engine.postgres == nil {
		return withFile(extFile(s.data()), func(c *sqlite.Conn) error {
			return until(func() (left bool, err error) {
				err = lite(c, waiting, func(r *sqlite.Stmt) { left = r.ColumnBool(0) })
				return left, err
			})
		})
	}
	return s.engine.connect(ctx, func(conn *pgx.Conn) error {
		return until(func() (left bool, err error) {
			err = conn.QueryRow(ctx, waiting).Scan(&left)
			return left, err
		})
	})
}

// limit uses its own database, because its events are never published and must not mix with the server's.
func (w *extLoad) limit(ctx context.Context, _ *options, e *engine, installs int) (limit, error) {
	if e.postgres != nil {
		return openExtPostgres(ctx, e, installs)
	}
	return openExtSQLite(ctx, installs)
}

func extWorkOf(operation string) (*extWork, error) {
	for _, w := range extWorks() {
		if w.name == operation {
			return &w, nil
		}
	}
	return nil, unknown(operation)
}

func extFill() (all [][]extOp) {
	var list []extOp
	for i := range extKeys {
		list = append(list, extOp{ns: extListNamespace, key: id(i), value: extValue})
	}
	all = append(all, list)
	for _, w := range extWorks() {
		var ops []extOp
		for i := range extKeys {
			if i == 0 || w.turn {
				ops = append(ops, w.op(i)...)
			}
		}
		if w.writes() {
			all = append(all, puts(ops))
		}
	}
	return all
}

func puts(ops []extOp) (writes []extOp) {
	for _, op := range ops {
		if op.kind == extPut {
			op.counts = false
			writes = append(writes, op)
		}
	}
	return writes
}

func extAudit(op *extOp) (head, tail string) {
	return fmt.Sprintf(`{"operation":"put","namespace":%q,"key":"`, op.ns),
		fmt.Sprintf(`","schemaVersion":%d,"caller":"token","callerId":"","revision":`, op.schema)
}

func extText(bytes int) string { return `"` + strings.Repeat("x", bytes-2) + `"` }
