package syncstorage

import "sync"

// Pages is memory in which backends gather the records of listings, used again
// for the next. The zero Pages is ready, and safe for concurrent use.
type Pages struct{ pool sync.Pool }

// Page gathers the records of one listing, in their order.
type Page struct {
	pages   *Pages
	records []BSO
	pieces  [][]byte // hold the payloads; those behind used are left of listings before
	used    int
	size    int // of the records, in bytes
}

// GatherMax is how many bytes of records a backend gathers in memory for a listing.
// What is larger is streamed from the engine.
const GatherMax = 2 << 20

const (
	// recordSize is what a record takes besides its payload: its place among the
	// records, which grow by appending, and its id.
	recordSize = 160

	// pieceSize is what payloads are copied into, many to a piece: an
	// allocation for each, or one slice that grows, would be most of the work
	// of a listing.
	pieceSize = 64 << 10

	// maxPieces and maxRecords are what is kept of a page for the next one.
	maxPieces  = 32
	maxRecords = 4096
)

// New is an empty page, which must become a listing or be dropped.
func (p *Pages) New() *Page {
	if g, ok := p.pool.Get().(*Page); ok {
		return g
	}
	return &Page{pages: p}
}

// Drop gives the page back.
func (g *Page) Drop() {
	clear(g.records) // the ids are of no more use
	g.records, g.used, g.size = g.records[:0], 0, 0
	if cap(g.records) > maxRecords {
		g.records = nil
	}
	for i, piece := range g.pieces {
		// One that a single large payload has made is of no use to others.
		if i >= maxPieces || cap(piece) > pieceSize {
			clear(g.pieces[i:])
			g.pieces = g.pieces[:i]
			break
		}
	}
	g.pages.pool.Put(g)
}

// Add appends a record with room for so many bytes of payload, to be filled by
// the caller at once.
func (g *Page) Add(b BSO, payload int) []byte {
	b.Payload = g.alloc(payload)
	g.records = append(g.records, b)
	g.size += recordSize + payload
	return b.Payload
}

// alloc returns n bytes of a piece.
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

// Fits reports whether one more record would leave the page within GatherMax.
func (g *Page) Fits(payload int) bool { return g.size+recordSize+payload <= GatherMax }

// Size is how many bytes the records take.
func (g *Page) Size() int { return g.size }

// Records are those of the page, in their order.
func (g *Page) Records() []BSO { return g.records }

// Listing makes the page the answer to q; one record more than q's limit tells
// that there is a next page. The page belongs to the listing then.
func (g *Page) Listing(modified Timestamp, q *Query) *Listing {
	n, more := q.Page(len(g.records))
	found := g.records[:n]
	l := NewListing(modified, n, func(yield func(*BSO, error) bool) {
		for i := range found {
			if !yield(&found[i], nil) {
				return
			}
		}
	}, g.Drop)
	l.Gathered, l.Memory = true, g.size
	if more {
		var last *BSO
		if n > 0 {
			last = &found[n-1]
		}
		l.Turn(q, last)
	}
	return l
}
