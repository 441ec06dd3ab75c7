package buckets

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestBucketsDamage damages copies while clients write, and in some rounds kills the server right after the first
// reads. Whole reads, range reads and range copies must return good bytes, and in the end all copies are restored.
func TestBucketsDamage(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.Both()...), func(t *testing.T, _ harness.Engine, data string, vars ...string) {
		h, b := newBuckets(t, nodeFolders(t), data, vars...)
		h.Workloads = []harness.Workload{restored{b}}
		h.Server = h.Serve()
		all, damaged := b.store(h), 0
		b.others = len(b.copies(h))
		h.Rounds(4, func(round int) harness.Fault {
			deadly, choose := round%4 == 3, h.Random(round, 0xfffe)
			return harness.Fault{Deadly: deadly, Inject: func() {
				damaged += b.damage(h, choose)
				all.readable(b, h)
				all.copyable(b, h, choose)
				if deadly {
					h.Server.Kill()
				}
			}, Recover: func() {
				if deadly {
					h.Server = h.Serve()
				}
				all.readable(b, h)
				if round%2 == 1 {
					b.restore(h)
				}
				if round%10 == 9 {
					b.sweep(h) // replaced bodies would fill the disk
				}
			}}
		})
		t.Logf("%d copies were damaged", damaged)
		if damaged == 0 {
			t.Error("no copy was damaged")
		}
		b.removeAll(h, all)
	})
}

type restored struct{ *Workload }

func (r restored) Finish(h *harness.Harness) {
	h.T.Helper()
	r.restore(h)
	r.Workload.Finish(h)
}

// damage damages some copies. Each body keeps a good copy.
func (b *Workload) damage(h *harness.Harness, choose *rand.Rand) (n int) {
	h.T.Helper()
	copies := b.copies(h)
	for _, body := range slices.Sorted(maps.Keys(copies)) {
		names := copies[body]
		if len(names) != b.Copies || choose.IntN(3) > 0 {
			continue
		}
		text, good := sameText(names)
		if !good || len(text) == 0 {
			continue
		}
		name := names[choose.IntN(len(names))]
		if choose.IntN(10) == 0 {
			harness.Must(h.T, os.Remove(name))
		} else {
			harness.Must(h.T, os.WriteFile(name, spoil(text, choose), 0o600))
		}
		n++
	}
	return n
}

func (b *Workload) copies(h *harness.Harness) map[string][]string {
	h.T.Helper()
	all := map[string][]string{}
	for _, file := range b.files(h) {
		all[filepath.Base(file)] = append(all[filepath.Base(file)], file)
	}
	return all
}

func sameText(names []string) (text []byte, same bool) {
	for i, name := range names {
		got, err := os.ReadFile(name)
		if err != nil || i > 0 && string(got) != string(text) {
			return nil, false
		}
		text = got
	}
	return text, true
}

func spoil(text []byte, choose *rand.Rand) []byte {
	at := choose.IntN(len(text))
	switch choose.IntN(6) {
	case 0:
		return nil
	case 1:
		return text[:at]
	case 2:
		return append(text, 0)
	case 3:
		for i := at; i < min(at+16, len(text)); i++ {
			text[i] ^= 0xff
		}
	case 4:
		clear(text[at:])
		text[0] ^= 1 // the rest may have been zero
	default:
		text[at] ^= 1 << choose.IntN(8)
	}
	return text
}

func (s stored) copyable(b *Workload, h *harness.Harness, choose *rand.Rand) {
	h.T.Helper()
	for _, key := range slices.Sorted(maps.Keys(s)) {
		from := choose.IntN(len(s[key]))
		want := s[key][from : from+1+choose.IntN(len(s[key])-from)]
		to := "/fault/copy-of-" + key
		id := buckets.UploadID(b.want(h, http.StatusOK, http.MethodPost, to+"?uploads", "").Body)
		b.want(h, http.StatusOK, http.MethodPut, to+"?partNumber=1&uploadId="+id, "", "X-Amz-Copy-Source: /fault/"+key,
			fmt.Sprintf("X-Amz-Copy-Source-Range: bytes=%d-%d", from, from+len(want)-1))
		b.want(h, http.StatusOK, http.MethodPost, to+"?uploadId="+id, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"+
			buckets.MD5(want)+"</ETag></Part></CompleteMultipartUpload>")
		if got := b.want(h, http.StatusOK, http.MethodGet, to, "").Body; got != want {
			h.T.Errorf("copy of %s, %d bytes from byte %d: wrong bytes", key, len(want), from)
		}
		b.want(h, http.StatusNoContent, http.MethodDelete, to, "")
	}
}

// restore runs an audit that restores all copies, and compares each body's copies.
func (b *Workload) restore(h *harness.Harness) {
	h.T.Helper()
	r := binary.Run(h.T, h.Server.Env, "buckets", "audits", "run", "--verify", "--repair")
	if r.Status != 0 {
		h.T.Errorf("audit: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if r := binary.Run(h.T, h.Server.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 || !strings.Contains(r.Stdout, "none") {
		h.T.Errorf("audit after the repair: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}
