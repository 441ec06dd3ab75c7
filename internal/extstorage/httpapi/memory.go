package httpapi

import (
	"bytes"
	"net/http"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// Requests charge memory to a budget shared by all clients: web.ReadBody charges the body, and the code below charges
// its processing, the data read, and the response until it was received.
const (
	// smallBytes is the size up to which only web.ReadBody charges. Slots limit such bodies, and such responses take
	// less memory than their connection.
	smallBytes = 4 << 10

	// workCopies is how many more copies of the values a write needs: the canonical form and, on PostgreSQL, an
	// argument and a message (BenchmarkLargeBatch there). SQLite allocates 2.3 times the body, half of it one value
	// at a time (BenchmarkLargeBatch here).
	workCopies = 3

	rowBytes = 256

	exportBytes = 2*ext.PageBytes + ext.MaxPage*(rowBytes+ext.MaxNamespace+4*ext.MaxKey) + 2*flushAt

	// importBytes is the memory of an import without its records.
	importBytes   = 64 << 10
	longLineBytes = 2 * maxLine
)

// LargestRequest returns the most memory, in bytes, that a request needs: that for a full batch.
func LargestRequest() int64 { return (1 + workCopies) * (itemsBody + bytes.MinRead) }

// fits charges n bytes for data read, and n for the response. If they are unavailable, it returns false; then drop
// the data, call await, and read again.
func (x *exchange) fits(n int) bool {
	if n <= smallBytes || int64(n) <= x.charged {
		return true
	}
	if !web.TryChargeMemory(x.in, int64(n)-x.charged) {
		return false
	}
	x.charged = int64(n)
	return true
}

// await waits until n bytes are charged in total.
func (x *exchange) await(n int) error {
	if err := web.ChargeMemory(x.in, int64(n)-x.charged); err != nil {
		return err
	}
	x.charged = int64(n)
	return nil
}

// keep releases the charged memory above n bytes, e.g. when only the answer is left of the data read.
func (x *exchange) keep(n int) {
	if more := x.charged - int64(n); more > 0 {
		web.ReleaseMemory(x.in, more)
		x.charged = int64(n)
	}
}

// sizeOf estimates the records' memory.
func sizeOf(records []ext.Record) int {
	n := 2 * rowBytes
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
	n := 2 * rowBytes
	for i := range all {
		n += sizeOfSchema(&all[i])
	}
	return n
}

// sizeOfFeed estimates the changes' memory.
func sizeOfFeed(f *ext.Feed) int {
	n := rowBytes
	for i := range f.Changes {
		n += rowBytes + len(f.Changes[i].Namespace) + len(f.Changes[i].Key)
	}
	return n
}

// answerRead sends a body, after charging its memory.
func (x *exchange) answerRead(body []byte) error {
	if !x.fits(cap(body)) {
		if err := x.await(cap(body)); err != nil {
			return err
		}
	}
	return x.answer(http.StatusOK, body)
}
