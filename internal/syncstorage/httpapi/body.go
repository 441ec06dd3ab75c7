package httpapi

import (
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// body reads the whole body, because truncated lines would be valid. Then it acquires a slot and memory for
// processing.
func (h *Handler) body(x *exchange) ([]byte, error) {
	body, err := web.ReadBody(x.out, x.in, h.Service.Limits(x.ask.Collection).MaxRequestBytes, &bodyErrors)
	if err != nil {
		return nil, err
	}
	if len(body) > smallBody {
		if err := web.ChargeMemory(x.in, workCopies*int64(len(body))); err != nil {
			return nil, err
		}
	}
	return body, h.acquireSlot(x)
}

const (
	// smallBody is the size up to which processing a body is not charged to the memory budget, because the request
	// slots limit it.
	smallBody = 4 << 10

	// workCopies is how many more copies of the payloads a write needs. On PostgreSQL these are an argument and a
	// message (BenchmarkLargePost there), on SQLite a single record (BenchmarkLargeBody).
	workCopies = 2
)

// LargestRequest returns the maximum memory of a request, which is the largest POST or gathered listing.
func LargestRequest(l ss.Limits) int64 {
	body := l.MaxRequestBytes
	for name := range l.Collections {
		body = max(body, l.For(name).MaxRequestBytes)
	}
	post := (1+workCopies)*(body+pieceBytes) + listedPerWritten*l.MaxPostRecords*itemBytes
	return max(post, int64(ss.GatherMax+bufferFor(ss.GatherMax)))
}
