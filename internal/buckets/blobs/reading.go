package blobs

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// reading reads chunks of a body, one after another. Each chunk comes from any copy in which it is
// good, so copies that are damaged at different places serve the whole body.
type reading struct {
	c        *Cluster
	ctx      context.Context //nolint:containedctx // of the request
	path     string
	body     buckets.Reference // as the row has it; a copy may have told its Frames
	unframed bool              // the row has no Frames
	replicas []*replica
	missing  error // a node of the body is not in the cluster
	at, to   int64 // indexes of chunks: the next one, and the one after the last

	source  *source
	current *replica // of source
	sums    []uint64 // of the chunks, once a copy without usable frames was compared as a whole
	whole   *sum     // nil if the body is not read from its first chunk to its last
}

// replica is a copy of a body as one reading sees it.
type replica struct {
	node     *member
	layout   layout
	switched bool // the copy had another layout than the row says
	rank     int  // replicas with a smaller one are tried first
	failedAt int64
	err      error   // why it failed the last time
	used     bool    // it has yielded a chunk
	reported Problem // the last one
}

// Ranks of replicas.
const (
	rankGood = iota
	rankDown // the node failed, or is avoided
	rankBad  // a chunk was wrong
	rankGone // it is not tried
)

func (c *Cluster) newReading(ctx context.Context, of copySet, at, to int64) *reading {
	body := of.body
	r := &reading{c: c, ctx: ctx, path: of.path, body: *body, unframed: !body.Frames.Set, at: at, to: to, replicas: c.preference(of.on, of.path)}
	for _, p := range r.replicas {
		p.layout = layoutOf(&body.Body)
	}
	if body.Frames.Set && at == 0 && to == chunkCount(body.Length) {
		r.whole = newSum(&body.Body)
	}
	return r
}

// preference orders copies: first those on nodes that work, last those that were found
// wrong; at random otherwise, so that nodes share the load.
func (c *Cluster) preference(from []*member, path string) []*replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*replica, len(from))
	for i, m := range from {
		all[i] = &replica{node: m, failedAt: -1}
		switch {
		case c.isBad(m, path):
			all[i].rank = rankBad
		case m.stalled, c.isAvoided(m):
			all[i].rank = rankDown
		}
	}
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// next returns the next chunk.
func (r *reading) next() (*chunk, error) {
	for {
		if r.source == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		p := r.current
		got, size, err := r.source.next(r.ctx, r.c.ReadStall)
		switch {
		case r.ctx.Err() != nil:
			if err == nil {
				got.release()
			}
			return nil, r.ctx.Err()
		case errors.Is(err, errLayout) && !p.switched:
			r.drop()
			p.switchLayout()
		case err != nil:
			r.drop()
			r.fail(p, err)
		default:
			r.delivered(p, got, size)
			if err := r.accept(got); err != nil {
				got.release()
				return nil, err
			}
			return got, nil
		}
	}
}

// accept compares the body with the checksum of the whole, if it is read whole. Chunks that
// are all good are another body only if the row is wrong.
func (r *reading) accept(c *chunk) error {
	if r.whole == nil {
		return nil
	}
	r.whole.add(c)
	if r.at < r.to {
		return nil
	}
	err := r.whole.check()
	if err != nil {
		r.c.tell(Finding{Path: r.path, Problem: Lost, Reference: r.body})
	}
	return err
}

// delivered takes note of a chunk that a copy has yielded.
func (r *reading) delivered(p *replica, c *chunk, size int64) {
	r.at++
	if p.layout == framed && chunkCount(r.body.Length) == 1 {
		r.adopt(c.id, c.sum)
	}
	if !p.used {
		p.used = true
		r.c.observe(p.node, Read)
	}
	if size != p.layout.size(r.body.Length) {
		r.report(p, Truncated)
	} else if p.layout != framed || r.unframed {
		r.report(p, Unframed)
	}
}

// open begins to read the best copy from the current chunk on.
func (r *reading) open() error {
	for {
		p := r.pick()
		if p == nil {
			return r.lost()
		}
		if r.needsSurvey(p) {
			if err := r.survey(p); err != nil {
				if r.ctx.Err() != nil {
					return r.ctx.Err()
				}
				r.fail(p, err)
				continue
			}
		}
		r.current = p
		r.source = r.c.openSource(r.ctx, p.node, r.path, r.verifier(p), span{r.at, r.to})
		return nil
	}
}

// verifier returns a verifier with what is known now: the goroutine of a source uses it.
func (r *reading) verifier(p *replica) verifier {
	return verifier{layout: p.layout, body: r.body.Body, sums: r.sums, alone: chunkCount(r.body.Length) == 1}
}

// pick returns the best copy that has not failed at the current chunk.
func (r *reading) pick() *replica {
	var left []*replica
	for _, p := range r.replicas {
		if p.rank != rankGone && p.failedAt != r.at {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return slices.MinFunc(left, func(a, b *replica) int { return cmp.Compare(a.rank, b.rank) })
}

// adopt takes the frames of a copy that was compared as a whole for those of the body, if its row
// does not have them: it is of garbage, or was read before it got them.
func (r *reading) adopt(id, crc64 uint64) {
	if !r.body.Frames.Set {
		r.body.Frames = optional.Some(buckets.Frames{ID: id, CRC64NVME: crc64})
	}
}

func (p *replica) switchLayout() { p.layout, p.switched = p.layout.other(), true }

// needsSurvey reports whether chunks of a copy cannot be verified one by one yet.
func (r *reading) needsSurvey(p *replica) bool {
	return r.sums == nil && (p.layout == plain || !r.body.Frames.Set) && chunkCount(r.body.Length) > 1
}

// survey reads a copy whole and compares it with the checksum of the body. Afterwards the
// checksums of all chunks are known, and chunks of any copy are verified by them.
func (r *reading) survey(p *replica) error {
	w, err := r.c.readWhole(r.ctx, p.node, r.path, r.verifier(p), nil)
	if errors.Is(err, errLayout) && !p.switched {
		p.switchLayout()
		if !r.needsSurvey(p) {
			return nil
		}
		w, err = r.c.readWhole(r.ctx, p.node, r.path, r.verifier(p), nil)
	}
	if err != nil {
		return err
	}
	r.sums = w.sums
	if p.layout == framed {
		r.adopt(w.id, w.crc64)
	}
	return nil
}

// drop ends the use of a copy.
func (r *reading) drop() {
	if r.source != nil {
		r.source.close()
		r.source, r.current = nil, nil
	}
}

// fail takes note of a copy that did not yield the current chunk.
func (r *reading) fail(p *replica, err error) {
	p.failedAt, p.err = r.at, err
	switch {
	case errcode.Is(err, errcode.NotFound):
		p.rank = rankGone
		r.report(p, Missing)
	case errors.Is(err, errTruncated):
		p.rank = rankBad
		r.report(p, Truncated)
	case errors.Is(err, ErrCorrupt):
		p.rank = rankBad
		r.report(p, Corrupt)
	case errors.Is(err, errNewer), errors.Is(err, errNoSum):
		p.rank = rankBad
	default:
		p.rank = rankDown
		r.c.observe(p.node, ReadFailed)
		r.c.blame(r.ctx, p.node, err)
	}
}

// report passes on what is wrong with a copy, once for each reading.
func (r *reading) report(p *replica, problem Problem) {
	if p.reported != problem {
		p.reported = problem
		r.c.report(Finding{Node: p.node.id, Path: r.path, Problem: problem, Reference: r.body})
	}
}
