package syncstorage

import "sync"

// Pages is a pool of memory in which backends gather the records of listings. The
// zero Pages is ready to use, and safe for concurrent use.
type Pages struct{ pool sync.Pool }

// Page gathers the records of one listing, in their order.
type Page struct {
	pages   *Pages
	records []BSO
	pieces  [][]byte // hold the payloads; those after used are left over from earlier listings
	used    int
	size    int // bytes of the records
}

// GatherMax is the maximum size of a listing that a backend gathers in memory, in
// bytes. Larger listings are streamed from the engine.
const GatherMax = 2 << 20

const (
	// recordSize is the memory of a record without its payload: its element in the
	// slice of records, which grows by appending, and its ID.
	recordSize = 160

	// pieceSize is the size of the buffers into which payloads are copied, many per
	// buffer: one allocation per payload, or one growing slice, would dominate the
	// cost of a listing.
	pieceSize = 64 << 10

	// maxPieces and maxRecords limit the memory that a page keeps for the next
	// listing.
	maxPieces  = 32
	maxRecords = 4096
)

// New returns an empty page. Convert it to a listing or drop it.
func (p *Pages) New() *Page {
	if g, ok := p.pool.Get().(*Page); ok {
		return g
	}
	return &Page{pages: p}
}

// Drop returns the page to the pool.
func (g *Page) Drop() {
	clear(g.records) // release the IDs
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

// Add appends a record and returns its payload of the given length, which the
// caller must fill at once.
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

// Fits reports whether the page stays within GatherMax with one more record.
func (g *Page) Fits(payload int) bool { return g.size+recordSize+payload <= GatherMax }

// Size returns the memory of the records in bytes.
func (g *Page) Size() int { return g.size }

// Records returns the records in order.
func (g *Page) Records() []BSO { return g.records }

// Listing converts the page to the result of q. One record more than q's limit
// means that there is a next page. The listing takes ownership of the page.
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
