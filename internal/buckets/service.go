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

// Bodies stores bodies on storage nodes. Paths are those of BodyPath.
type Bodies interface {
	// Write stores what src yields, at most size bytes if size is not negative, on as many
	// nodes as copies says. When it returns, all copies are durable. On an error nothing is left
	// behind, or only what an audit finds.
	Write(ctx context.Context, path string, size int64, copies int, src io.Reader) (Stored, error)

	// Open reads length bytes from offset. Each chunk comes from any copy in which it is good, and
	// is verified before one of its bytes is returned. A body without Frames is verified whole before
	// the first byte is returned.
	Open(ctx context.Context, path string, body Reference, offset, length int64) (io.ReadCloser, error)

	// Copies returns the number of copies that bodies have by default.
	Copies() int

	// Remove removes a body from nodes. It is not an error if it is not there.
	Remove(ctx context.Context, path string, sharks []string) error
}

// Stored is the result of Bodies.Write.
type Stored struct {
	Sharks []string
	Frames Frames
}

// Source is a body that a client sends. Read returns io.EOF only after everything that
// the client has said about the body (length, checksums, signatures) was found to be
// true. Then Sums returns what was computed on the way.
type Source interface {
	io.Reader
	Sums() Sums
}

// Summed is a Source that may compute the CRC64NVME of its bytes anyway, so that nobody computes it again.
type Summed interface {
	// CRC64NVME returns the checksum of the bytes that were read so far, or false if it is
	// not computed.
	CRC64NVME() (sum uint64, ok bool)
}

// Sums are computed from a body.
type Sums struct {
	MD5      []byte
	Checksum Checksum // zero: none was asked for
}

// CommitWithin is how long after the end of a body its row may be written. A body that is
// older and that no row has will never have one, so an audit may remove it.
const CommitWithin = time.Hour

// errLate means that the nodes or the database took longer than CommitWithin.
var errLate = errcode.New(errcode.Unavailable, "the body was not stored in time; retry")

// Bodies passes a body on in chunks of ChunkSize bytes.
const (
	ChunkSize   = 128 << 10
	WriteChunks = 6 // the most at once while a body is written: one is filled, four wait, one is being written
	ReadChunks  = 2 // the most at once while a body is read: one is returned, one is read ahead
)

// WriteMemory returns how much memory in bytes a write of a body of size bytes needs, or
// of an unknown size if size is -1.
func (s *Service) WriteMemory(size int64) int64 {
	switch {
	case s.IsInline(size):
		return size + 1
	case size >= 0 && size < ChunkSize:
		return ChunkSize
	}
	return WriteChunks * ChunkSize
}

// IsInline reports whether a body of size bytes is stored in the database.
func (s *Service) IsInline(size int64) bool {
	return size >= 0 && size <= int64(s.Limits().Inline)
}

// ReadMemory returns how much memory in bytes Open needs for length bytes of an object.
func (s *Service) ReadMemory(o *Object, length int64) int64 {
	switch {
	case o.Inline != nil:
		return length
	case o.Length <= ChunkSize:
		return ChunkSize // a part of a chunk is read as a whole chunk
	}
	return ReadChunks * ChunkSize
}

// Options of a Service. All but Limits and Written are required.
type Options struct {
	Backend Backend
	Bodies  Bodies
	Clock   clock.Clock
	Limits  Limits

	// Destinations are those of events that the configuration has.
	Destinations []Destination

	// Written, if set, is called with each body on storage nodes: when it is durable, and before its row is written. settled is called
	// when the row is written, with kept, or when it never will be.
	Written func(Reference) (settled func(kept bool))
}

// Backend is the part of a backend that a Service needs.
type Backend interface {
	Store
	Versions
	Uploads
	Collector
	Counters
	Accounts
	Events
}

// Limits of a Service.
type Limits struct {
	Inline  int   // bytes; larger bodies are on storage nodes
	Copies  int   // of a body on storage nodes, 0: as many as Bodies says
	MinPart int64 // of every part but the last; 0: MinPart

	GarbageAfter time.Duration // grace period of deleted objects, for ClaimBatch
}

// Service has the use cases of the protocols.
type Service struct {
	store  Backend
	bodies Bodies
	clock  clock.Clock
	limits atomic.Pointer[Limits]
	notes  notes
	locked atomic.Int64

	destinations []Destination

	written func(Reference) (settled func(kept bool))
}

// NewService returns a service.
func NewService(o Options) *Service {
	if o.Written == nil {
		o.Written = func(Reference) func(bool) { return func(bool) {} }
	}
	s := &Service{store: o.Backend, bodies: o.Bodies, clock: o.Clock, destinations: o.Destinations, written: o.Written}
	s.Reload(o.Limits)
	return s
}

// Now returns the time of the service's clock.
func (s *Service) Now() Moment { return At(s.clock()) }

// Limits returns the limits.
func (s *Service) Limits() Limits { return *s.limits.Load() }

// Reload replaces the limits.
func (s *Service) Reload(l Limits) {
	l.MinPart = cmp.Or(l.MinPart, MinPart)
	s.limits.Store(&l)
}

// PutRequest is an object to be written, without its body.
type PutRequest struct {
	Object    Object // Name, Creator, ContentType, Headers, Roles and Properties
	Condition Condition
	Size      int64        // of the body; -1: unknown
	Copies    int          // 0: Limits.Copies
	Ready     func() error // called after the body was read and before the database is used; may be nil

	Event EventName // that is published; "": EventPut

	// Early calls a function that uses the database before the body is read; nil: it is called at once.
	Early func(func() error) error
}

// PutObject writes an object. If the body cannot be read to its end, nothing is written.
// b.ID may be empty if IsInline(r.Size) and r.Condition is not set.
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

// checkEarly rejects a write whose condition does not hold now, so that the client need
// not send the body. The store decides again.
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

// knownResult reports whether a write with this error has had no effect. If that is not
// known, the body stays: an audit finds it if no row has it.
func knownResult(err error) bool {
	return errors.Is(err, ErrNodeRemoved) || errcode.Of(err) != errcode.Unavailable && errcode.Of(err) != errcode.Internal
}

// bodyWrite is a body to be stored.
type bodyWrite struct {
	owner  AccountID
	bucket BucketID
	name   string // of the object
	size   int64  // -1: unknown
	copies int    // 0: Limits.Copies
	ready  func() error
	body   *Body // gets all but its ID, which it has

	settled func(kept bool) // nil: it is not on storage nodes
	removed bool
}

// settle tells that the row of the body is written, or never will be.
func (w *bodyWrite) settle() {
	if w.settled != nil {
		w.settled(!w.removed)
	}
}

// writeBody stores a body and then calls ready, unless that is nil. remove takes the
// body back; after an error nothing is left to take back.
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

// placeBody reads a body into the row if it is small, and otherwise onto storage nodes.
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
		// The client may be gone; a body that stays is found by an audit.
		_ = s.bodies.Remove(context.WithoutCancel(ctx), path, stored.Sharks)
	}, nil
}

// readHead reads at most limit bytes of a body that has size bytes, if that is not
// negative.
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

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	clock clock.Clock
	n     int64
	ended time.Time // when the last Read returned
}

func (c *counter) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.n += int64(n)
	if err != nil {
		c.ended = c.clock()
	}
	return n, err
}

// CRC64NVME implements Summed.
func (c *counter) CRC64NVME() (sum uint64, ok bool) {
	s, ok := c.Reader.(Summed)
	if !ok {
		return 0, false
	}
	return s.CRC64NVME()
}

// replay reads a body whose first bytes were read before.
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

// CRC64NVME implements Summed. The checksum is ahead of a reader that has not read the first bytes.
func (r *replay) CRC64NVME() (sum uint64, ok bool) {
	if len(r.head) > 0 {
		return 0, false
	}
	return r.counter.CRC64NVME()
}

// PartRequest is a part to be written, without its body.
type PartRequest struct {
	Number int
	Size   int64        // of the body; -1: unknown
	Ready  func() error // as in PutRequest
}

// PutPart writes a part of an upload. The caller has found that the upload exists, so
// that a client need not send a body in vain; the store decides again.
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
