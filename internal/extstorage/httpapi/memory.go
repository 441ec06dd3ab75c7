package httpapi

import (
	"bytes"
	"net/http"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// What a request keeps in memory is charged to the budget that clients share: the body
// by web.ReadBody, and here the work on it, what is read for the answer, and the
// answer, until the client has taken it.
const (
	// smallBytes is a body or an answer of which nothing is charged but what
	// web.ReadBody charges: the slots bound how many of them are worked on, and the
	// answer takes less than its connection.
	smallBytes = 4 << 10

	// workCopies is how often the values of a body are in memory besides it while
	// they are written: once in canonical form, and on PostgreSQL as an argument and
	// as a message (BenchmarkLargeBatch there; 2.3 times the body is allocated on
	// SQLite, by BenchmarkLargeBatch here, half of it for one value at a time).
	workCopies = 3

	// rowBytes is what a record, a change or a schema takes in an answer besides its
	// names and contents, and about what it takes as it is read.
	rowBytes = 256

	// exportBytes is the most that a page of an export takes, which may be of schemas
	// and of records, with the part of it that is sent at once.
	exportBytes = 2*ext.PageBytes + ext.MaxPage*(rowBytes+ext.MaxNamespace+4*ext.MaxKey) + 2*flushAt

	// importBytes is what an import takes besides the records of a step, and
	// longLineBytes what it takes besides when it has had a longer line than that.
	importBytes   = 64 << 10
	longLineBytes = 2 * maxLine
)

// LargestRequest is the most memory that a request needs at once, in bytes: a batch as
// large as the limits allow.
func LargestRequest() int64 { return (1 + workCopies) * (itemsBody + bytes.MinRead) }

// fits charges the request for n bytes that it has read for its answer, and for the
// answer, if they are free. If not, it drops what it has read, waits for the bytes by
// await, and reads again.
func (x *exchange) fits(n int) bool {
	if n <= smallBytes || int64(n) <= x.charged {
		return true
	}
	if !web.TryChargeMemory(x.out, int64(n)-x.charged) {
		return false
	}
	x.charged = int64(n)
	return true
}

// await charges the request for n bytes, for which it may have to wait.
func (x *exchange) await(n int) error {
	if err := web.ChargeMemory(x.out, x.in, int64(n)-x.charged); err != nil {
		return err
	}
	x.charged = int64(n)
	return nil
}

// keep gives back all but n of the bytes of fits and await.
func (x *exchange) keep(n int) {
	if more := x.charged - int64(n); more > 0 {
		web.ReleaseMemory(x.out, more)
		x.charged = int64(n)
	}
}

// sizeOf is how many bytes records take as they are read, and about as many in an
// answer.
func sizeOf(records []ext.Record) int {
	n := 2 * rowBytes // the cursor
	for i := range records {
		n += sizeOfRecord(&records[i])
	}
	return n
}

func sizeOfRecord(r *ext.Record) int {
	return rowBytes + len(r.Namespace) + len(r.Key) + len(r.Value) + len(r.Metadata)
}

func sizeOfSchema(s *ext.Schema) int { return rowBytes + len(s.Document) }

func sizeOfSchemas(all []ext.Schema) int {
	n := 2 * rowBytes // the cursor
	for i := range all {
		n += sizeOfSchema(&all[i])
	}
	return n
}

func sizeOfFeed(f *ext.Feed) int {
	n := rowBytes
	for i := range f.Changes {
		n += rowBytes + len(f.Changes[i].Namespace) + len(f.Changes[i].Key)
	}
	return n
}

// answerRead is answer of a read whose answer is there already.
func (x *exchange) answerRead(body []byte) error {
	if !x.fits(cap(body)) {
		if err := x.await(cap(body)); err != nil {
			return err
		}
	}
	return x.answer(http.StatusOK, body)
}
