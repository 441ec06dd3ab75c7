package sqlitedb

import (
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	engine "modernc.org/sqlite/lib"
)

// keepPlans makes plans independent of parameters on all later connections (Query Planner Stability Guarantee).
// Otherwise SQLite reprepares statements with joins or limits whenever parameters are bound.
var keepPlans = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	// The driver cannot configure connections, but SQLite calls this function for each.
	if code := engine.Xsqlite3_auto_extension(tls, address(keepPlansOf)); code != engine.SQLITE_OK {
		return fmt.Errorf("sqlite3_auto_extension: %s", libc.GoString(engine.Xsqlite3_errstr(tls, code)))
	}
	return nil
})

type extension = func(tls *libc.TLS, db, message, api uintptr) int32

// keepPlansOf sets the option for one connection; SQLite calls it.
func keepPlansOf(tls *libc.TLS, db, _, _ uintptr) int32 {
	args := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(tls, args)
	return engine.Xsqlite3_db_config(tls, db, engine.SQLITE_DBCONFIG_ENABLE_QPSG, args)
}

// address returns f as a function pointer that SQLite, translated from C to Go, can call.
func address(f extension) uintptr {
	return *(*uintptr)(unsafe.Pointer(&struct{ f extension }{f})) //nolint:gosec // a function value is a pointer
}
