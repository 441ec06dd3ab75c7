package sigv4

import (
	"hash"
	"runtime"
	"sync"
	"sync/atomic"
)

// Cores limits the bodies that compute their MD5 in a goroutine. MD5 takes longer than all other work together. With
// an idle core, a body arrives as fast as its MD5 is computed; without, a goroutine would only add context switches.
// Cores is safe for concurrent use; a nil *Cores never has an idle core.
type Cores struct{ idle atomic.Int64 }

// NewCores returns half of the process's cores, because each body keeps two busy.
func NewCores() *Cores { return coresOf(runtime.GOMAXPROCS(0) / 2) }

func coresOf(n int) *Cores {
	c := new(Cores)
	c.idle.Store(int64(n))
	return c
}

func (c *Cores) tryAcquire() bool {
	if c == nil {
		return false
	}
	if c.idle.Add(-1) < 0 {
		c.idle.Add(1)
		return false
	}
	return true
}

func (c *Cores) release() { c.idle.Add(1) }

// Smaller pieces and bodies are not worth a goroutine, which costs 1 to 5 µs: the MD5 of 16 KiB takes 25 µs.
const (
	parallelPiece = 16 << 10
	parallelBody  = 128 << 10
)

// pipeline writes pieces to a hash in order, in a goroutine while a core is idle.
type pipeline struct {
	hash  hash.Hash
	cores *Cores

	mu      sync.Mutex
	queue   [][]byte
	running bool
	stopped sync.Cond // signals the end of the goroutine
}

func newPipeline(h hash.Hash, cores *Cores) *pipeline {
	p := &pipeline{hash: h, cores: cores}
	p.stopped.L = &p.mu
	return p
}

// write hands piece to the hash. Do not change piece before wait returns.
func (p *pipeline) write(piece []byte) {
	if len(piece) == 0 {
		return
	}
	p.mu.Lock()
	switch {
	case p.running:
		p.queue = append(p.queue, piece)
	case len(piece) >= parallelPiece && p.cores.tryAcquire():
		p.queue, p.running = append(p.queue, piece), true
		go p.run()
	default:
		p.hash.Write(piece)
	}
	p.mu.Unlock()
}

// run hashes pieces until the queue is empty. It does not wait for a slow client, because others can use the core.
func (p *pipeline) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 {
		pieces := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, piece := range pieces {
			p.hash.Write(piece)
		}
		p.mu.Lock()
		if p.queue == nil {
			p.queue = pieces[:0]
		}
	}
	p.running = false
	p.cores.release()
	p.stopped.Signal()
}

// wait waits until everything was hashed.
func (p *pipeline) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.running {
		p.stopped.Wait()
	}
}
