package main

import (
	"context"
	"fmt"
	"time"
)

// extLimit is the bare engine with the tables of extension storage, in a
// database of its own: what waits to be published of the server's would else be
// mixed with what nobody publishes.
type extLimit interface {
	// window does a work for so long, with as many callers as the server has
	// clients, and returns operations per second. What waits to be published is
	// taken away before: the server's relay has done so, too.
	window(ctx context.Context, w *extWork, callers int, d time.Duration) (float64, error)
	close() error
}

// openExtLimit makes a limit that has as many installs as named, with what the
// works read and write.
func openExtLimit(ctx context.Context, e *engine, installs int) (extLimit, error) {
	if e.postgres != nil {
		return openExtPostgres(ctx, e, installs)
	}
	return openExtSQLite(ctx, installs)
}

// extFirst is the number of the first install, which has 12 digits: they are the
// end of its UUID.
const extFirst = 100_000_000_000

// What stands before the number in the UUIDs of a tenant and its install.
const (
	extTenant  = "00000000-0000-4000-8000-"
	extInstall = "00000000-0000-4000-9000-"
)

// owner is the n-th install's and its tenant's UUID.
func owner(n int) (tenant, install string) {
	number := fmt.Sprintf("%012d", extFirst+n)
	return extTenant + number, extInstall + number
}

// extFill is what the limits' installs have: what every work writes, and the
// records of the list.
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

// puts are those operations that write, as plain puts.
func puts(ops []extOp) (writes []extOp) {
	for _, op := range ops {
		if op.kind == extPut {
			op.counts = false
			writes = append(writes, op)
		}
	}
	return writes
}

// The audit's event of an operation, around its key.
func extAudit(op *extOp) (head, tail string) {
	return fmt.Sprintf(`{"operation":"put","namespace":%q,"key":"`, op.ns),
		fmt.Sprintf(`","schemaVersion":%d,"caller":"token","callerId":"","revision":`, op.schema)
}
