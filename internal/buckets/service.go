package buckets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Bodies stores bodies on storage nodes under BodyPath paths. It is safe for concurrent use.
type Bodies interface {
	// Write stores src durably on the given number of nodes, at least 1. It accepts at most size bytes, unless size is
	// negative. It reads src to its end but does not close it. A failed write may leave files, which an audit finds.
	Write(ctx context.Context, path string, size int64, copies int, src io.Reader) (Stored, error)

	// Open verifies each chunk before it returns it, and combines good chunks from several copies. A body without Frames
	// is verified as a whole. A negative length means up to the end; a range beyond the end is an error. The caller closes
	// the reader, at any point, and ctx must not end before.
	Open(ctx context.Context, path string, body Reference, offset, length int64) (io.ReadCloser, error)

	// Copies returns how many copies are the default.
	Copies() int

	// Remove removes the copies on the given nodes. It tries all of them even if some fail. A missing body is not an error.
	Remove(ctx context.Context, path string, sharks []string) error
}

// Stored tells where a body was written.
type Stored struct {
	Sharks []string
	Frames Frames
}

// Source is a body sent by a client. Read verifies length, checksums and signatures before it returns io.EOF. Sums is
// valid only after that.
type Source interface {
	io.Reader
	Sums() Sums
}

// Summed is a Source that may compute the CRC64NVME itself.
type Summed interface {
	// CRC64NVME returns the checksum of the bytes read so far.
	CRC64NVME() (sum uint64, ok bool)
}

// Sums are a complete body's checksums.
type Sums struct {
	MD5      []byte
	Checksum Checksum // zero if not requested
}

// CommitWithin limits the time from the end of a body to its row's commit. An audit may remove older bodies without a
// row.
const CommitWithin = time.Hour

var errLate = errcode.New(errcode.Unavailable, "the body was not stored in time; retry")

// Bodies are processed in chunks.
const (
	ChunkSize   = 128 << 10
	WriteChunks = 6 // per write: one being filled, four queued, one being written
	ReadChunks  = 2 // per read: one being returned, one read ahead
)

// WriteMemory is in bytes. size is -1 if unknown.
func (s *Service) WriteMemory(size int64) int64 {
	switch {
	case s.IsInline(size):
		return size + 1
	case size >= 0 && size < ChunkSize:
		return ChunkSize
	}
	return WriteChunks * ChunkSize
}

// IsInline reports whether a body with this size is stored in the row. -1 means that the size is unknown.
func (s *Service) IsInline(size int64) bool {
	return size >= 0 && size <= int64(s.Limits().Inline)
}

// ReadMemory estimates the memory in bytes that reading length bytes needs, which the caller reserves.
func (s *Service) ReadMemory(o *Object, length int64) int64 {
	switch {
	case o.Inline != nil:
		return length
	case o.Length <= ChunkSize:
		return ChunkSize // partial chunks are read as a whole
	}
	return ReadChunks * ChunkSize
}

type Options struct {
	Backend Backend
	Bodies  Bodies // storage nodes; not used for inline bodies
	Clock   clock.Clock
	Limits  Limits

	Destinations []Destination // configured, for rules and test events

	// Written, if set, is called when a body is durable on storage nodes but has no row yet. The Service calls its result
	// once when it is known whether the row was written; kept is also true if that is unknown. Both are called
	// concurrently and must not block.
	Written func(Reference) (settled func(kept bool))
}

// Backend is all that the Service needs from a store. Package backend adds the interfaces for maintenance.
type Backend interface {
	Store
	Versions
	Uploads
	Collector
	Counters
	Accounts
	Events
}

// Limits are the settings that can be reloaded.
type Limits struct {
	Inline  int   // bytes; larger bodies go to storage nodes
	Copies  int   // 0 for Bodies.Copies
	MinPart int64 // minimum size of all parts but the last; 0 for MinPart

	GarbageAfter time.Duration // grace period for ClaimBatch

	StandardOnly bool // S3 clients may not give objects another storage class
}

// Service checks and limits requests, and calls the Backend and the Bodies. It is safe for concurrent use. Its results are
// shared as Store says.
type Service struct {
	store  Backend
	bodies Bodies
	clock  clock.Clock
	limits atomic.Pointer[Limits]
	notes  notes
	locked atomic.Int64 // see Locked

	destinations []Destination

	written func(Reference) (settled func(kept bool))
}

// NewService returns a Service. It starts nothing.
func NewService(o Options) *Service {
	if o.Written == nil {
		o.Written = func(Reference) func(bool) { return func(bool) {} }
	}
	s := &Service{store: o.Backend, bodies: o.Bodies, clock: o.Clock, destinations: o.Destinations, written: o.Written}
	s.Reload(o.Limits)
	return s
}

func (s *Service) Now() Moment { return At(s.clock()) }

// Limits returns the current settings.
func (s *Service) Limits() Limits { return *s.limits.Load() }

// Reload changes the settings for later requests.
func (s *Service) Reload(l Limits) {
	l.MinPart = cmp.Or(l.MinPart, MinPart)
	s.limits.Store(&l)
}

// PutRequest is a PutObject request, or a write by another operation that creates an object.
type PutRequest struct {
	Object    Object       // Name, Creator, ContentType, Headers, Roles and Properties
	Condition Condition    // checked before the body is read, and again by the store
	Size      int64        // -1 if unknown
	Copies    int          // 0 for Limits.Copies
	Ready     func() error // called once after the body is stored and before the row is written, e.g. to acquire a slot; an error removes the body; may be nil

	Event EventName // "" for EventPut

	// Early, if set, runs a function that uses the database before the body is read, e.g. in a request slot.
	Early func(func() error) error
}

// PutObject writes nothing if reading the body fails. b.ID may be empty for unconditional inline writes.
func (s *Service) PutObject(ctx context.Context, owner AccountID, b BucketRef, r PutRequest, src Source) (Written, error) {
	if err := s.checkEarly(ctx, owner, b, &r); err != nil {
		return Written{}, err
	}
	o := r.Object
	o.ID = ObjectID(NewUUID())
	body := bodyWrite{owner: owner, bucket: b.ID, name: o.Name, size: r.Size, copies: r.Copies, ready: r.Ready, body: &o.Body}
	defer body.settle()
	remove, err := s.writeBody(ctx, &body, src)
	if err != nil {
		return Written{}, err
	}
	o.Checksum = src.Sums().Checksum
	w, err := withNotice(ctx, s, noticed{owner, b, o.Name}, func(b BucketRef, n *Notice) (Written, error) {
		if n != nil {
			n.Created = cmp.Or(r.Event, EventPut)
		}
		return s.store.Put(ctx, owner, b, Put{Object: o, Condition: r.Condition, Now: At(s.clock()), Notice: n})
	})
	if err != nil && knownResult(err) {
		remove()
	}
	return w, err
}

// checkEarly checks the condition before the client sends the body. The store checks it again.
func (s *Service) checkEarly(ctx context.Context, owner AccountID, b BucketRef, r *PutRequest) error {
	if !r.Condition.IsSet() {
		return nil
	}
	var o Object
	get := func() (err error) {
		o, err = s.store.Get(ctx, owner, b.ID, r.Object.Name)
		return err
	}
	var err error
	if r.Early != nil {
		err = r.Early(get)
	} else {
		err = get()
	}
	switch {
	case err == nil:
		return r.Condition.CheckWrite(&o)
	case errors.Is(err, ErrNoObject):
		return r.Condition.CheckWrite(nil)
	}
	return err
}

// knownResult reports whether a failed write certainly had no effect. Otherwise the body stays, and an audit removes
// it if it has no row.
func knownResult(err error) bool {
	return errors.Is(err, ErrNodeRemoved) || errcode.Of(err) != errcode.Unavailable && errcode.Of(err) != errcode.Internal
}

// bodyWrite is a body on its way to the database or to nodes.
type bodyWrite struct {
	owner  AccountID
	bucket BucketID
	name   string
	size   int64
	copies int
	ready  func() error
	body   *Body // filled in, except for the ID

	settled func(kept bool) // nil if the body is not on storage nodes
	removed bool            // so the row was not written
}

// settle reports to Options.Written whether the body stays.
func (w *bodyWrite) settle() {
	if w.settled != nil {
		w.settled(!w.removed)
	}
}

// writeBody stores a body and then calls ready. remove undoes the write; it need not be called after an error.
func (s *Service) writeBody(ctx context.Context, w *bodyWrite, src Source) (remove func(), err error) {
	counted := &counter{Reader: src, clock: s.clock}
	remove, err = s.placeBody(ctx, w, src, counted)
	if err != nil {
		return remove, err
	}
	if w.ready != nil {
		err = w.ready()
	}
	if err == nil && s.clock().Sub(counted.ended) > CommitWithin {
		err = errLate
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// placeBody stores a body inline if it is small enough, and otherwise on nodes. The size may be unknown, so it reads up
// to the limit before it decides.
func (s *Service) placeBody(ctx context.Context, w *bodyWrite, src Source, counted *counter) (remove func(), err error) {
	remove = func() {}
	var reader io.Reader = counted
	limits := s.Limits()
	if w.size <= int64(limits.Inline) {
		head, err := readHead(counted, w.size, limits.Inline+1)
		if err != nil {
			return remove, err
		}
		if len(head) <= limits.Inline {
			w.body.Inline, w.body.Length, w.body.MD5 = head, counted.n, src.Sums().MD5
			return remove, nil
		}
		reader = &replay{counted, head}
	}
	copies := cmp.Or(w.copies, limits.Copies)
	if copies == 0 {
		copies = s.bodies.Copies()
	}
	path := BodyPath(w.owner, w.bucket, w.body.ID, w.name)
	stored, err := s.bodies.Write(ctx, path, w.size, copies, reader)
	if err != nil {
		return remove, err
	}
	w.body.Sharks, w.body.Frames, w.body.Length, w.body.MD5 = stored.Sharks, optional.Some(stored.Frames), counted.n, src.Sums().MD5
	w.settled = s.written(Reference{Owner: w.owner, Bucket: w.bucket, Name: w.name, Body: *w.body})
	return func() {
		w.removed = true
		// The client may have disconnected. If this fails, an audit finds the body.
		_ = s.bodies.Remove(context.WithoutCancel(ctx), path, stored.Sharks)
	}, nil
}

// readHead reads at most limit bytes. Without a known size (-1) it begins with a small buffer.
func readHead(r io.Reader, size int64, limit int) ([]byte, error) {
	if size < 0 {
		size = bytes.MinRead
	}
	head := make([]byte, 0, min(int(size)+1, limit))
	for len(head) < limit {
		if len(head) == cap(head) {
			head = slices.Grow(head, min(len(head), limit-len(head)))
		}
		n, err := r.Read(head[len(head):min(cap(head), limit)])
		head = head[:len(head)+n]
		if err == io.EOF {
			return head, nil
		} else if err != nil {
			return nil, err
		}
	}
	return head, nil
}

// counter counts bytes and notes when the body ended, from which CommitWithin counts.
type counter struct {
	io.Reader
	clock clock.Clock
	n     int64
	ended time.Time
}

// Read forwards to the source.
func (c *counter) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.n += int64(n)
	if err != nil {
		c.ended = c.clock()
	}
	return n, err
}

// CRC64NVME forwards to the source, so that nodes need not compute it again.
func (c *counter) CRC64NVME() (sum uint64, ok bool) {
	s, ok := c.Reader.(Summed)
	if !ok {
		return 0, false
	}
	return s.CRC64NVME()
}

// replay returns bytes that were already read, and then the rest.
type replay struct {
	*counter
	head []byte
}

func (r *replay) Read(p []byte) (n int, err error) {
	if len(r.head) == 0 {
		return r.counter.Read(p)
	}
	n = copy(p, r.head)
	r.head = r.head[n:]
	return n, nil
}

// CRC64NVME returns no sum until head is read completely, because counter covers more bytes than were returned.
func (r *replay) CRC64NVME() (sum uint64, ok bool) {
	if len(r.head) > 0 {
		return 0, false
	}
	return r.counter.CRC64NVME()
}

// PartRequest is an UploadPart request.
type PartRequest struct {
	Number int
	Size   int64        // -1 if unknown
	Ready  func() error // see PutRequest
}

// PutPart requires that the caller has checked that the upload exists.
func (s *Service) PutPart(ctx context.Context, u UploadKey, r PartRequest, src Source) (Part, error) {
	if r.Number < 1 || r.Number > MaxParts {
		return Part{}, ErrPartNumber
	}
	p := Part{Number: r.Number, Body: Body{ID: ObjectID(NewUUID())}}
	w := bodyWrite{owner: u.Owner, bucket: u.Bucket.ID, name: u.Name, size: r.Size, ready: r.Ready, body: &p.Body}
	defer w.settle()
	remove, err := s.writeBody(ctx, &w, src)
	if err != nil {
		return Part{}, err
	}
	p.Checksum, p.Created = src.Sums().Checksum, s.now()
	if err := s.store.PutPart(ctx, u, p); err != nil {
		if knownResult(err) {
			remove()
		}
		return Part{}, err
	}
	return p, nil
}
