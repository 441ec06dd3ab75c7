package httpapi

import (
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// body reads the whole body of a request, which its collection's limit bounds:
// half a list of lines would be a list, too. Then it takes a slot for the request, and
// the memory that the work on the body needs.
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
	// smallBody is a body whose work is not charged: slots bound how many of them
	// are worked on.
	smallBody = 4 << 10

	// workCopies is how often the payloads of a body are in memory besides the body
	// while they are written: twice on PostgreSQL, as an argument and as a message
	// (BenchmarkLargePost there); one record of them on SQLite (BenchmarkLargeBody).
	workCopies = 2
)

// LargestRequest is the most memory that a request needs at once, in bytes: a POST as
// large as the limits allow, or a listing that is gathered.
func LargestRequest(l ss.Limits) int64 {
	body := l.MaxRequestBytes
	for name := range l.Collections {
		body = max(body, l.For(name).MaxRequestBytes)
	}
	post := (1+workCopies)*(body+pieceBytes) + listedPerWritten*l.MaxPostRecords*itemBytes
	return max(post, int64(ss.GatherMax+bufferFor(ss.GatherMax)))
}
