package buckets

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/replica"
	"holdfast/internal/testdb"
)

// BenchmarkPutWithReplica compares writes of incompressible objects with and without a replica in memory, in
// alternating windows. ms/MiB is the replica's CPU time per MiB.
func BenchmarkPutWithReplica(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			const windows, window = 9, 1500 * time.Millisecond
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(rand.Uint32())
			}
			plain, _ := newLoad(b)
			replicated, opened := newLoad(b)
			r := startReplica(b, opened)
			for b.Loop() {
				var ratios, costs []float64
				for range windows {
					n, cost := replicated.window(b, body, window)
					plainN, plainCost := plain.window(b, body, window)
					ratios = append(ratios, float64(n)/float64(plainN))
					costs = append(costs, (cost-plainCost)*float64(1<<20)/float64(size))
				}
				slices.Sort(ratios)
				slices.Sort(costs)
				b.ReportMetric(ratios[windows/2], "ratio")
				b.ReportMetric(costs[windows/2], "ms/MiB")
				b.ReportMetric(float64(r.Status().Bodies.Waiting), "waiting")
			}
			if err := errors.Join(r.CloseBodies(context.Background()), r.Close(context.Background())); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type load struct {
	*client

	next atomic.Int64
}

func newLoad(b *testing.B) (*load, *servicetest.Server) {
	b.Helper()
	s, opened := openBuckets(b, b.TempDir())
	return &load{client: s.newClients(b, 1)[0]}, opened
}

func startReplica(b *testing.B, opened *servicetest.Server) *replica.Replica {
	b.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	r := replica.New(replica.Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{Name + ".db": opened.Databases[0].File()}, Bodies: map[string]replica.Bodies{Name: *opened.Files.Bodies},
		Target: replica.Folder(filepath.Join(testdb.MemoryFolder(b), "target")), Recipients: []age.Recipient{identity.Recipient()}, Spool: b.TempDir(),
		Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	r.Start()
	return r
}

// window repeatedly overwrites the same objects. It returns the number of writes, and the CPU time per write in ms.
func (l *load) window(b *testing.B, body []byte, d time.Duration) (writes int64, cost float64) {
	b.Helper()
	before := processTime(b)
	var n atomic.Int64
	var running sync.WaitGroup
	end := time.Now().Add(d)
	for range 8 {
		running.Go(func() {
			for time.Now().Before(end) {
				r := buckets.PutRequest{Object: buckets.Object{Name: strconv.FormatInt(l.next.Add(1)%1000, 10)}, Size: int64(len(body))}
				if _, err := l.s.opened.PutObject(b.Context(), l.owner, l.bucket, r, text{bytes.NewReader(body)}); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	running.Wait()
	return n.Load(), (processTime(b) - before).Seconds() * 1000 / float64(n.Load())
}
