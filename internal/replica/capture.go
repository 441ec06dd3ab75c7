package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/superfly/ltx"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// source captures a database into files for the target.
type source struct {
	name   string // in the target, e.g. "sync.db"
	db     *sqlitedb.DB
	spool  string // folder for its files
	limit  int64  // Options.SpoolBytes
	frames int    // WAL length in frames that triggers a checkpoint
	least  int64  // snapshotLeast, or another value in tests
	clock  clock.Clock
	fault  func(point string) error
	space  func(folder string) (free, size float64, err error) // see durable.Space
	// written returns the number of the last body a row may refer to.
	written func() uint64
	round   uint64             // of the capture in progress
	once    bool               // captured once, not followed
	follow  *sqlitedb.Follower // nil: not following
	at      position           // end of the WAL read so far
	chain   chain

	failures            int // consecutive
	compared, restarted int // counters: full comparisons, WAL restarts

	mu       sync.Mutex
	state    state     // captured
	waiting  []ltxFile // not sent yet, oldest first
	kept     []ltxFile // sent, to be merged
	snapshot ltxFile   // file with all pages that waits for the target, or zero
	last     snapshot  // the last file with all pages
	resumed  ltx.TXID  // last TXID before the server stopped, until the target confirms it
	bytes    int64     // in waiting, see counted
	away     bool      // the spool was full, so the source waits for the target
	broken   bool      // files were dropped, so the source must start over
}

// snapshot is the last file with all pages: its size in bytes and time. since is the size of the files after it.
type snapshot struct {
	size  int64
	at    time.Time
	since int64
}

// state is how far a database is captured.
type state struct {
	Position // run "": nothing was captured yet

	asOf time.Time // the file includes all writes acknowledged before this time

	bodies uint64 // rows refer to bodies up to this number
	round  uint64 // see Replica.rounds
}

// ltxFile is a file in the spool, later an object: the pages that a range of transactions changed.
type ltxFile struct {
	run      string
	from, to ltx.TXID
	size     int64     // bytes
	asOf     time.Time // when its transactions were read
}

// counted returns the size that counts towards the spool limit: 0 for a run's first file, which contains the whole
// database.
func (f ltxFile) counted() int64 {
	if f.from == 1 {
		return 0
	}
	return f.size
}

// path returns the file's path in the spool.
func (f ltxFile) path(spool string) string {
	return filepath.Join(spool, f.run+"-"+rangeName(f.from, f.to)+".ltx")
}

// capture writes the changes since the last call to the spool. It follows the WAL if possible, and otherwise compares
// all pages.
func (s *source) capture(ctx context.Context) error {
	if s.once {
		return s.captureOnce(ctx)
	}
	if s.isAway() {
		return nil
	}
	if s.isBroken() {
		if err := s.stop(); err != nil {
			return err
		}
	}
	if err := s.checkSpace(); err != nil {
		return err
	}
	asOf := s.clock()
	if s.follow == nil {
		return s.begin(ctx, asOf)
	}
	err := s.advance(asOf)
	switch {
	case isGap(err):
		err = s.compare(ctx, asOf, false)
	case err == nil && s.needsSnapshot(asOf) && s.hasSpace(s.size()):
		err = s.compare(ctx, asOf, true)
	case err == nil && s.at.frames > s.frames:
		err = s.restart(ctx)
	}
	if s.isBroken() {
		return errors.Join(err, s.stop())
	}
	if isGap(err) { // from restart, or because the file was replaced: the next capture compares all pages
		return nil
	}
	if err == nil {
		s.failures = 0
	} else if s.failures++; s.failures >= maxFailures { // otherwise the WAL would fill the disk
		return errors.Join(err, s.release())
	}
	return err
}

const (
	// maxFailures is how many captures may fail before the source stops following.
	maxFailures = 10
	// reserve is the share of a disk that the spool leaves to the databases, up to maxReserve bytes.
	reserve    = 0.05
	maxReserve = 1 << 30
)

// checkSpace releases the database and the waiting files if the spool's disk is nearly full.
func (s *source) checkSpace() error {
	if s.follow != nil && s.hasSpace(0) {
		return nil
	}
	if s.follow == nil && s.hasSpace(s.size()) {
		return nil
	}
	err := s.release()
	return errors.Join(err, errcode.New(errcode.Unavailable, "too little disk space in the data folder for a database copy waiting to be sent"))
}

// size returns the size of the database file.
func (s *source) size() int64 {
	info, err := os.Stat(s.db.Path())
	if err != nil {
		return 0
	}
	return info.Size()
}

// hasSpace reports whether the spool's disk keeps its reserve after so many more bytes. An unknown amount counts as
// enough.
func (s *source) hasSpace(bytes int64) bool {
	folder := filepath.Dir(s.spool)
	if _, err := os.Stat(folder); err != nil {
		folder = filepath.Dir(folder)
	}
	free, size, err := s.space(folder)
	return err != nil || free-float64(bytes) >= min(reserve*size, maxReserve)
}

// release drops waiting files and stops following, so that the writer checkpoints. The next capture starts over.
func (s *source) release() error {
	s.mu.Lock()
	if s.state.Run != "" || len(s.waiting) > 0 {
		s.drop()
	}
	s.away = false
	s.mu.Unlock()
	s.failures = 0
	return s.stop()
}

// begin starts to follow. With a stored chain, the first file contains only pages that differ from it.
func (s *source) begin(ctx context.Context, asOf time.Time) (err error) {
	if err := durable.MakeFolder(s.spool); err != nil {
		return err
	}
	former, last, err := s.resume()
	if err != nil {
		return err
	}
	if err := s.clear(""); err != nil {
		return err
	}
	if s.follow, err = s.db.Follow(ctx); err != nil {
		s.follow = nil
		return err
	}
	s.chain = former
	s.mu.Lock()
	s.broken, s.resumed, s.last = false, former.txid, last
	s.mu.Unlock()
	if err := s.compare(ctx, asOf, false); err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// clear deletes old files: they are in the target, or this process starts with all pages.
func (s *source) clear(except string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting, s.kept, s.snapshot, s.bytes = nil, nil, ltxFile{}, 0
	entries, err := os.ReadDir(s.spool)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range entries {
		if f.Name() != except {
			err = errors.Join(err, os.Remove(filepath.Join(s.spool, f.Name())))
		}
	}
	return err
}

// stop ends following: the writer may checkpoint.
func (s *source) stop() error {
	if s.follow == nil {
		return nil
	}
	err := s.follow.Close()
	s.follow = nil
	return err
}

// advance captures all committed frames.
func (s *source) advance(asOf time.Time) error {
	if err := s.follow.Hold(); err != nil {
		return err
	}
	l, err := s.follow.Log()
	if err != nil {
		return err
	}
	return s.read(l.Committed, asOf)
}

// read captures the frames up to number to. If the WAL does not prove that nothing is missing, it returns a gapError.
func (s *source) read(to int, asOf time.Time) error {
	wal, err := openWAL(s.follow.Path())
	if err != nil {
		return err
	}
	defer wal.Close()
	if to == s.at.frames {
		if err := s.at.check(wal, to); err != nil {
			return err
		}
		s.captured(asOf)
		return nil
	}
	c, err := s.at.read(wal, to)
	if err != nil {
		return err
	}
	n := s.chain.begin(c.size)
	if page := n.missing(c); page > 0 {
		return gapError{fmt.Sprintf("it does not have page %d", page)}
	}
	f, err := s.write(s.nextFile(n, asOf), func(w io.Writer) error {
		if err := n.encode(w, wal, c, asOf.UnixMilli()); err != nil {
			return err
		}
		return s.at.check(wal, to)
	})
	if err != nil {
		return err
	}
	s.at = c.end
	n.apply(&s.chain)
	s.push(f)
	return nil
}

// restart captures everything and makes SQLite begin the WAL again, so that it does not grow forever.
func (s *source) restart(ctx context.Context) error {
	if _, err := s.follow.Checkpoint(); err != nil { // does most of the work without blocking the writer
		return err
	}
	former := s.at.header
	done, err := s.follow.Restart(ctx, func() (int, error) {
		err := s.advance(s.clock())
		return s.at.frames, err
	}, s.isIntact)
	if err != nil || !done {
		return err
	}
	wal, err := openWAL(s.follow.Path())
	if err != nil {
		return err
	}
	defer wal.Close()
	h, err := readHeader(wal)
	if err != nil || h == former {
		return err // if the WAL continues, a reader still needs it
	}
	if h.salt[0] != former.salt[0]+1 || h.pageSize != former.pageSize {
		return gapError{"another process has begun it again"}
	}
	s.at = position{header: h, sum: h.sum}
	s.restarted++
	return nil
}

// isIntact reports whether nobody restarted or overwrote the WAL.
func (s *source) isIntact() bool {
	wal, err := openWAL(s.follow.Path())
	if err != nil {
		return false
	}
	defer wal.Close()
	return s.at.check(wal, s.at.frames) == nil
}

const pinTries = 20

// pin finds a position in the WAL at which the follower's snapshot is: both must show the same transactions.
func (s *source) pin(ctx context.Context) (at position, err error) {
	for range pinTries {
		if err := s.follow.Touch(ctx); err != nil {
			return at, err
		}
		pinned := false
		err := s.follow.Paused(ctx, func() (err error) {
			at, pinned, err = s.tryPin()
			return err
		})
		if pinned || err != nil && !isGap(err) {
			return at, err
		}
	}
	return at, errcode.New(errcode.Unavailable, "other processes write to the database all the time")
}

// tryPin pauses the writer. It returns false if another process wrote.
func (s *source) tryPin() (at position, pinned bool, err error) {
	before, err := s.position()
	if err != nil {
		return at, false, err
	}
	if err := s.follow.Hold(); err != nil {
		return at, false, err
	}
	at, err = s.position()
	return at, err == nil && at == before, err
}

// position returns the end of the committed frames.
func (s *source) position() (position, error) {
	l, err := s.follow.Log()
	if err != nil {
		return position{}, err
	}
	wal, err := openWAL(s.follow.Path())
	if err != nil {
		return position{}, err
	}
	defer wal.Close()
	return positionAt(wal, l.Committed)
}

// compare captures the pages that differ from the chain, which initially are all pages. If full is set, it also
// writes a snapshot.
func (s *source) compare(ctx context.Context, asOf time.Time, full bool) error {
	at, err := s.pin(ctx)
	if err != nil {
		return err
	}
	if err := s.comparePages(ctx, s.follow, asOf, full); err != nil {
		return err
	}
	s.at = at // not earlier: a failure would lose writes since the old position
	s.compared++
	return nil
}

// pages reads all pages of a database: a follower's snapshot or a frozen file.
type pages interface {
	Pages(ctx context.Context, fn func(number uint32, data []byte) error) error
	Size() (pages, bytes uint32, err error) // pages in the database, and bytes per page
}

// comparePages writes the pages in from that differ from the chain, and with full all pages into another file.
func (s *source) comparePages(ctx context.Context, from pages, asOf time.Time, full bool) error {
	size, pageSize, err := from.Size()
	if err != nil {
		return err
	}
	if s.chain.run == "" || s.chain.pageSize != pageSize {
		s.chain = chain{run: ulid.Make().String(), pageSize: pageSize}
		s.confirmed(true)
	}
	n := s.chain.begin(size)
	f, all := s.nextFile(n, asOf), s.nextFile(n, asOf)
	all.from = 1
	scan := func(differ, all io.Writer) error { return n.scan(ctx, from, differ, all, asOf.UnixMilli()) }
	if full && n.of.txid > 0 {
		all, err = s.write(all, func(w io.Writer) error {
			f, err = s.write(f, func(differ io.Writer) error { return scan(differ, w) })
			return err
		})
	} else {
		f, err = s.write(f, func(differ io.Writer) error { return scan(differ, nil) })
	}
	if err != nil {
		return err
	}
	n.apply(&s.chain)
	s.push(f)
	if all.size > 0 {
		s.pushSnapshot(all)
	}
	return nil
}

// scan writes the pages that differ from the chain to differ and, unless all is nil, all pages to all.
func (n *next) scan(ctx context.Context, from pages, differ, all io.Writer, milliseconds int64) error {
	header := n.header(milliseconds)
	to := []*ltx.Encoder{nil, nil}
	for i, w := range []io.Writer{differ, all} {
		if w == nil {
			continue
		}
		var err error
		if to[i], err = ltx.NewEncoder(w); err != nil {
			return err
		}
		if err := to[i].EncodeHeader(header); err != nil {
			return err
		}
		header.MinTXID, header.PreApplyChecksum = 1, 0
	}
	err := from.Pages(ctx, func(page uint32, data []byte) error { return n.scanPage(to, page, data) })
	for _, enc := range to {
		if enc != nil && err == nil {
			enc.SetPostApplyChecksum(n.checksum())
			err = enc.Close()
		}
	}
	return err
}

// scanPage writes a page. It skips the lock page, which contains no data.
func (n *next) scanPage(to []*ltx.Encoder, page uint32, data []byte) error {
	if page == ltx.LockPgno(n.of.pageSize) {
		return nil
	}
	sum, h := ltx.ChecksumPage(page, data), ltx.PageHeader{Pgno: page}
	if page > n.of.size || n.of.pages[page-1] != sum {
		n.set(page, sum)
		if err := to[0].EncodePage(h, data); err != nil {
			return err
		}
	}
	if to[1] == nil {
		return nil
	}
	return to[1].EncodePage(h, data)
}

// nextFile returns the chain's next file.
func (s *source) nextFile(n *next, asOf time.Time) ltxFile {
	return ltxFile{run: s.chain.run, from: n.of.txid + 1, to: n.of.txid + 1, asOf: asOf}
}

// write does not sync the file: after a power failure the spool starts over.
func (s *source) write(f ltxFile, encode func(io.Writer) error) (ltxFile, error) {
	path := f.path(s.spool)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return f, err
	}
	buffered := bufio.NewWriterSize(file, 64<<10)
	err = encode(buffered)
	if err == nil {
		err = errors.Join(buffered.Flush(), s.fault("spool"))
	}
	if info, statErr := file.Stat(); err == nil {
		err = statErr
		if err == nil {
			f.size = info.Size()
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path)
	}
	return f, err
}
