package powercut

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// sector is the unit of atomic writes.
const sector = 512

// superblock is the number of sectors at the beginning that are never torn, because ext4 does not mount with half a
// superblock and its journal does not cover the superblock.
const superblock = 8

type version struct {
	write int64
	data  [sector]byte
}

// platter holds a disk's contents. The machine's mutex protects it.
type platter struct {
	now, durable []byte // mapped, so that the Go garbage collector does not count them
	volatile     map[int64][]version
	writes       int64 // since the last flush
	flushes      int64
}

func newPlatter(size int64) (*platter, error) {
	p := &platter{volatile: map[int64][]version{}}
	for _, area := range []*[]byte{&p.now, &p.durable} {
		mapped, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		if err != nil {
			return nil, err
		}
		*area = mapped
	}
	return p, nil
}

func (p *platter) free() {
	_ = unix.Munmap(p.now)
	_ = unix.Munmap(p.durable)
	p.now, p.durable = nil, nil
}

func (p *platter) write(data []byte, at int64) {
	p.writes++
	copy(p.now[at:], data)
	for n := at / sector; n*sector < at+int64(len(data)); n++ {
		v := version{write: p.writes}
		copy(v.data[:], p.now[n*sector:])
		p.volatile[n] = append(p.volatile[n], v)
	}
}

func (p *platter) flush() {
	p.flushes++
	for n, versions := range p.volatile {
		copy(p.durable[n*sector:], versions[len(versions)-1].data[:])
	}
	clear(p.volatile)
	p.writes = 0
}

func (p *platter) cut(choose *rand.Rand) {
	keep := p.survivors(choose)
	whole := map[int64]bool{} // whether the first block of a write survives
	keepWhole := func(write int64) bool {
		if _, decided := whole[write]; !decided {
			whole[write] = keep(write)
		}
		return whole[write]
	}
	numbers := make([]int64, 0, len(p.volatile))
	for n := range p.volatile {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers) // makes choices repeatable by seed
	for _, n := range numbers {
		versions, keep := p.volatile[n], keep
		if n < superblock {
			keep = keepWhole
		}
		for _, v := range slices.Backward(versions) {
			if keep(v.write) {
				copy(p.durable[n*sector:], v.data[:])
				break
			}
		}
		copy(p.now[n*sector:], p.durable[n*sector:(n+1)*sector])
	}
	clear(p.volatile)
	p.writes = 0
}

func (p *platter) survivors(choose *rand.Rand) func(write int64) bool {
	part := []float64{.1, .5, .9}[choose.IntN(3)]
	switch choose.IntN(6) {
	case 0: // keep nothing
		return func(int64) bool { return false }
	case 1: // keep everything, so only the processes die
		return func(int64) bool { return true }
	case 2: // keep writes in order, the last one torn
		last := choose.Int64N(p.writes + 1)
		return func(write int64) bool { return write < last || write == last && choose.IntN(2) == 0 }
	case 3: // keep whole writes in another order
		kept := make([]bool, p.writes+1)
		for i := range kept {
			kept[i] = choose.Float64() < part
		}
		return func(write int64) bool { return kept[write] }
	default: // keep any sectors
		return func(int64) bool { return choose.Float64() < part }
	}
}

type node struct {
	fs.Inode
	machine *Machine
	disk    *Disk
}

var (
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
)

func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.disk.opened.Add(1)
	return &handle{n.disk}, fuse.FOPEN_DIRECT_IO, 0
}

type handle struct{ disk *Disk }

var _ fs.FileReleaser = (*handle)(nil)

func (h *handle) Release(context.Context) syscall.Errno {
	h.disk.opened.Done()
	return 0
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Blksize = 0o600, uint64(n.disk.size), sector
	return 0
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.machine.mu.Lock()
	defer n.machine.mu.Unlock()
	if off >= n.disk.size {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, n.disk.platter.now[off:])]), 0
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if !n.machine.powered() {
		return 0, syscall.EIO
	}
	defer n.machine.mu.Unlock()
	n.disk.platter.write(data, off)
	return uint32(len(data)), 0
}

func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if !n.machine.powered() {
		return syscall.EIO
	}
	defer n.machine.mu.Unlock()
	n.disk.platter.flush()
	return 0
}
