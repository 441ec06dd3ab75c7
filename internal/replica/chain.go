package replica

import (
	"fmt"
	"io"
	"slices"

	"github.com/superfly/ltx"
)

// chain is the database state captured so far. A transaction number (TXID) counts LTX files; a file may contain many
// SQLite transactions.
type chain struct {
	run      string // ID; a run's first file contains all pages
	txid     ltx.TXID
	pageSize uint32
	size     uint32
	sum      ltx.Checksum   // of all pages; see ltx.Checksum
	pages    []ltx.Checksum // by page number - 1
}

// position returns the chain's end as restore points name it.
func (c *chain) position() Position {
	return Position{Run: c.run, TXID: c.txid, Sum: c.sum, Size: int64(c.size) * int64(c.pageSize)}
}

// pageSum is the checksum of a page.
type pageSum struct {
	page uint32
	sum  ltx.Checksum
}

// next is the chain's next transaction.
type next struct {
	of      chain        // the chain before
	size    uint32       // pages
	sum     ltx.Checksum // without the flag
	changed []pageSum
}

// begin starts a transaction after which the database has so many pages.
func (c *chain) begin(size uint32) *next {
	n := &next{of: *c, size: size, sum: c.sum}
	for page := size; page < c.size; page++ {
		n.sum ^= c.pages[page]
	}
	return n
}

// set records a changed page. The sum over all pages is an exclusive or, so it is updated without reading other
// pages.
func (n *next) set(page uint32, sum ltx.Checksum) {
	if page <= n.of.size {
		n.sum ^= n.of.pages[page-1]
	}
	n.sum ^= sum
	n.changed = append(n.changed, pageSum{page, sum})
}

// checksum returns the sum as LTX files contain it.
func (n *next) checksum() ltx.Checksum { return ltx.ChecksumFlag | n.sum }

// apply makes the transaction part of the chain.
func (n *next) apply(c *chain) {
	if grow := int(n.size) - len(c.pages); grow > 0 {
		c.pages = append(c.pages, make([]ltx.Checksum, grow)...)
	}
	clear(c.pages[min(c.size, n.size):])
	c.pages = c.pages[:n.size]
	for _, p := range n.changed {
		c.pages[p.page-1] = p.sum
	}
	c.txid, c.size, c.sum = n.of.txid+1, n.size, n.checksum()
}

// header returns the LTX file's header.
func (n *next) header(milliseconds int64) ltx.Header {
	return ltx.Header{
		Version: ltx.Version, PageSize: n.of.pageSize, Commit: n.size,
		MinTXID: n.of.txid + 1, MaxTXID: n.of.txid + 1,
		Timestamp: milliseconds, PreApplyChecksum: n.of.sum,
	}
}

// encode writes the changed pages from the WAL, in page order.
func (n *next) encode(w io.Writer, wal io.ReaderAt, c changes, milliseconds int64) error {
	enc, err := ltx.NewEncoder(w)
	if err != nil {
		return err
	}
	if err := enc.EncodeHeader(n.header(milliseconds)); err != nil {
		return err
	}
	numbers := make([]uint32, 0, len(c.pages))
	for page := range c.pages {
		numbers = append(numbers, page)
	}
	slices.Sort(numbers)
	data := make([]byte, n.of.pageSize)
	for _, page := range numbers {
		if err := readAt(wal, data, c.pages[page]); err != nil {
			return err
		}
		n.set(page, ltx.ChecksumPage(page, data))
		if err := enc.EncodePage(ltx.PageHeader{Pgno: page}, data); err != nil {
			return err
		}
	}
	enc.SetPostApplyChecksum(n.checksum())
	return enc.Close()
}

// missing returns a page that must have been written but was not, or 0. Pages above the database's smallest size were
// added.
func (n *next) missing(c changes) uint32 {
	lock := ltx.LockPgno(n.of.pageSize)
	for page := min(n.of.size, c.least) + 1; page <= c.size; page++ {
		if _, ok := c.pages[page]; !ok && page != lock {
			return page
		}
	}
	return 0
}

// rangeName returns the name of a file with these transactions, without ".ltx".
func rangeName(from, to ltx.TXID) string { return fmt.Sprintf("%s-%s", from, to) }
