package httpapi

import (
	"bytes"
	"net/http"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// The memory of a request is charged to a budget that clients share. web.ReadBody
// charges the body. The code here charges the memory for processing it, the data
// read for the answer, and the answer until the client has received it.
const (
	// smallBytes is the size up to which a body or an answer is not charged beyond
	// what web.ReadBody charges: slots limit how many are processed, and the answer
	// takes less memory than its connection.
	smallBytes = 4 << 10

	// workCopies is how many more copies of a body's values are in memory while
	// they are written: one in canonical form, and on PostgreSQL an argument and a
	// message (BenchmarkLargeBatch there; SQLite allocates 2.3 times the body, by
	// BenchmarkLargeBatch here, half of it for one value at a time).
	workCopies = 3

	// rowBytes is the size of a record, a change or a schema in an answer without
	// its names and contents, and roughly its size when read.
	rowBytes = 256

	// exportBytes is the most that a page of an export takes, which may be of schemas
	// and of records, with the part of it that is sent at once.
	exportBytes = 2*ext.PageBytes + ext.MaxPage*(rowBytes+ext.MaxNamespace+4*ext.MaxKey) + 2*flushAt

	// importBytes is the memory of an import besides the records of a step, and
	// longLineBytes what it takes in addition after a longer line.
	importBytes   = 64 << 10
	longLineBytes = 2 * maxLine
)

// LargestRequest returns the maximum memory of one request in bytes: a batch of
// maximum size.
func LargestRequest() int64 { return (1 + workCopies) * (itemsBody + bytes.MinRead) }

// fits charges the request for n bytes that it has read for its answer, and for
// the answer. If they are not free, it returns false: the caller drops what it has
// read, waits for the bytes with await, and reads again.
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

// await charges the request for n bytes, and may wait for them.
func (x *exchange) await(n int) error {
	if err := web.ChargeMemory(x.out, x.in, int64(n)-x.charged); err != nil {
		return err
	}
	x.charged = int64(n)
	return nil
}

// keep releases all but n of the bytes charged by fits and await.
func (x *exchange) keep(n int) {
	if more := x.charged - int64(n); more > 0 {
		web.ReleaseMemory(x.out, more)
		x.charged = int64(n)
	}
}

// sizeOf returns the memory of records as read, which is about their size in an
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

// answerRead writes the answer of a read that is already encoded.
func (x *exchange) answerRead(body []byte) error {
	if !x.fits(cap(body)) {
		if err := x.await(cap(body)); err != nil {
			return err
		}
	}
	return x.answer(http.StatusOK, body)
}
