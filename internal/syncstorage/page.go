package syncstorage

import "sync"

// Pages pools memory for listings. The zero value is ready; it is safe for concurrent use.
type Pages struct{ pool sync.Pool }

// Page gathers the records of a listing in pooled memory.
type Page struct {
	pages   *Pages
	records []BSO
	pieces  [][]byte // payload buffers
	used    int      // pieces in use
	size    int      // bytes
}

// GatherMax limits listings gathered in memory, in bytes.
const GatherMax = 2 << 20

const (
	// recordSize is a record's slice element and ID, without its payload.
	recordSize = 160

	// pieceSize is the buffer size for payloads. An allocation per payload, or a growing slice, would dominate a
	// listing's cost.
	pieceSize = 64 << 10

	// maxPieces and maxRecords limit the memory kept for the next listing.
	maxPieces  = 32
	maxRecords = 4096
)

// New returns an empty page. Call Drop or use the Listing's Close.
func (p *Pages) New() *Page {
	if g, ok := p.pool.Get().(*Page); ok {
		return g
	}
	return &Page{pages: p}
}

// Drop returns the memory to the pool. Records must not be used afterwards.
func (g *Page) Drop() {
	clear(g.records)
	g.records, g.used, g.size = g.records[:0], 0, 0
	if cap(g.records) > maxRecords {
		g.records = nil
	}
	for i, piece := range g.pieces {
		// Do not keep a piece made for a single large payload.
		if i >= maxPieces || cap(piece) > pieceSize {
			clear(g.pieces[i:])
			g.pieces = g.pieces[:i]
			break
		}
	}
	g.pages.pool.Put(g)
}

// Add appends a record and returns its payload buffer, which the caller must fill before the next call.
func (g *Page) Add(b BSO, payload int) []byte {
	b.Payload = g.alloc(payload)
	g.records = append(g.records, b)
	g.size += recordSize + payload
	return b.Payload
}

// alloc returns n bytes from the pieces.
func (g *Page) alloc(n int) []byte {
	if g.used > 0 {
		last := &g.pieces[g.used-1]
		if from := len(*last); n <= cap(*last)-from {
			*last = (*last)[:from+n]
			return (*last)[from : from+n : from+n]
		}
	}
	if g.used == len(g.pieces) {
		g.pieces = append(g.pieces, nil)
	}
	next := &g.pieces[g.used]
	if cap(*next) < n || *next == nil {
		*next = make([]byte, 0, max(pieceSize, n))
	}
	*next = (*next)[:n]
	g.used++
	return (*next)[:n:n]
}

// Fits reports whether a record with this payload size stays within GatherMax.
func (g *Page) Fits(payload int) bool { return g.size+recordSize+payload <= GatherMax }

// Size returns the memory in bytes.
func (g *Page) Size() int { return g.size }

// Records returns the records in the order of Add.
func (g *Page) Records() []BSO { return g.records }

// Listing converts the page to the result of q, which then owns the page.
func (g *Page) Listing(modified Timestamp, q *Query) *Listing {
	n, more := q.Page(len(g.records))
	records := g.records[:n]
	l := NewListing(modified, n, func(yield func(*BSO, error) bool) {
		for i := range records {
			if !yield(&records[i], nil) {
				return
			}
		}
	}, g.Drop)
	l.Gathered, l.Memory = true, g.size
	if more {
		var last *BSO
		if n > 0 {
			last = &records[n-1]
		}
		l.Turn(q, last)
	}
	return l
}
