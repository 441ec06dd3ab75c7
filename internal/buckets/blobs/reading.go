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

// reading reads each chunk from any good copy, so copies with different damaged chunks still provide the whole body.
type reading struct {
	c        *Cluster
	ctx      context.Context //nolint:containedctx // the request's
	path     string
	body     buckets.Reference // from the row, but Frames may come from a copy
	unframed bool              // the row has no frames
	replicas []*replica
	missing  error // a named node is unknown
	at, to   int64 // next chunk index, and the index after the last

	source  *source  // the open copy; nil before open and after a failure
	current *replica // the replica that source reads
	sums    []uint64 // chunk checksums, after a survey
	whole   *sum     // nil unless the whole body is read
}

// replica is a copy as a candidate for reading.
type replica struct {
	node     *member
	layout   layout
	switched bool  // its layout differs from the row
	rank     int   // lower ranks are tried first
	failedAt int64 // chunk at which it failed last; it is tried again for later chunks
	err      error
	used     bool    // counted in metrics
	reported Problem // last problem reported
}

const (
	// Ranks, from best to worst.
	rankGood = iota
	rankDown // the node failed or is avoided
	rankBad  // a chunk was wrong
	rankGone // the file is missing
)

// newReading begins to read the chunks from index at up to index to.
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

// preference puts working nodes first and known bad copies last. Otherwise the order is random, to share the load.
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

// next returns the next chunk from any good copy. The caller releases it.
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

// accept checks the whole body's checksum. If all chunks are good, it fails only if the row is wrong.
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

// delivered notes facts about the copy that gave a good chunk: a wrong size or missing frames are reported, but do not
// fail the read.
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

// open opens the best copy that has not failed for this chunk.
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

// verifier returns the checks for a copy.
func (r *reading) verifier(p *replica) verifier {
	return verifier{layout: p.layout, body: r.body.Body, sums: r.sums, alone: chunkCount(r.body.Length) == 1}
}

// pick returns the best copy left for this chunk, or nil.
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

// adopt uses a copy's frames if the row has none, because the body is garbage or the row was read before it got
// frames.
func (r *reading) adopt(id, crc64 uint64) {
	if !r.body.Frames.Set {
		r.body.Frames = optional.Some(buckets.Frames{ID: id, CRC64NVME: crc64})
	}
}

// switchLayout tries the other layout, once.
func (p *replica) switchLayout() { p.layout, p.switched = p.layout.other(), true }

// needsSurvey reports whether single chunks of the copy cannot be verified yet.
func (r *reading) needsSurvey(p *replica) bool {
	return r.sums == nil && (p.layout == plain || !r.body.Frames.Set) && chunkCount(r.body.Length) > 1
}

// survey verifies a copy against the body's checksum. After that, the chunks of any copy can be verified.
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

// drop closes the source.
func (r *reading) drop() {
	if r.source != nil {
		r.source.close()
		r.source, r.current = nil, nil
	}
}

// fail ranks a copy lower for the rest of the read. Damage is reported; a failing node is blamed instead.
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

// report reports a problem once per copy.
func (r *reading) report(p *replica, problem Problem) {
	if p.reported != problem {
		p.reported = problem
		r.c.report(Finding{Node: p.node.id, Path: r.path, Problem: problem, Reference: r.body})
	}
}
