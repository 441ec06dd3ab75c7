package httpapi

import (
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// body reads the whole body of a request, up to the limit of its collection,
// because a truncated list of lines would be valid. Then it acquires a slot, and
// the memory for processing the body.
func (h *Handler) body(x *exchange) ([]byte, error) {
	body, err := web.ReadBody(x.out, x.in, h.Service.Limits(x.ask.Collection).MaxRequestBytes, &bodyErrors)
	if err != nil {
		return nil, err
	}
	if len(body) > smallBody {
		if err := web.ChargeMemory(x.out, x.in, workCopies*int64(len(body))); err != nil {
			return nil, err
		}
	}
	return body, h.acquireSlot(x)
}

const (
	// smallBody is the size up to which processing a body is not charged: slots
	// limit how many are processed.
	smallBody = 4 << 10

	// workCopies is how many more copies of the payloads are in memory while they
	// are written: two on PostgreSQL, an argument and a message (BenchmarkLargePost
	// there); one record of them on SQLite (BenchmarkLargeBody).
	workCopies = 2
)

// LargestRequest returns the maximum memory of one request in bytes: a POST of
// maximum size, or a gathered listing.
func LargestRequest(l ss.Limits) int64 {
	body := l.MaxRequestBytes
	for name := range l.Collections {
		body = max(body, l.For(name).MaxRequestBytes)
	}
	post := (1+workCopies)*(body+pieceBytes) + listedPerWritten*l.MaxPostRecords*itemBytes
	return max(post, int64(ss.GatherMax+bufferFor(ss.GatherMax)))
}
