package replica

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// alsoState is one of Options.Also as it was last sent.
type alsoState struct {
	sum    [sha256.Size]byte
	object string // may be in the target before sent is true
	sent   bool
}

// sendAlso sends the files in Options.Also that changed, and returns the objects by name for the next point.
func (r *Replica) sendAlso(ctx context.Context) (objects map[string]string, err error) {
	for _, name := range slices.Sorted(maps.Keys(r.opts.Also)) {
		content, err := os.ReadFile(r.opts.Also[name])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		last, sum := r.also[name], sha256.Sum256(content)
		if last.object == "" || last.sum != sum {
			// A random name reveals nothing about the content.
			last = alsoState{sum: sum, object: alsoPrefix + name + "/" + rand.Text() + r.keys.suffix()}
			r.setAlso(name, last)
		}
		if !last.sent {
			if err := r.put(ctx, last.object, r.keys, bytes.NewReader(content), int64(len(content))); err != nil {
				return nil, err
			}
			last.sent = true
			r.setAlso(name, last)
		}
		if objects == nil {
			objects = map[string]string{}
		}
		objects[name] = last.object
	}
	return objects, nil
}

func (r *Replica) setAlso(name string, s alsoState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.also[name] = s
}

// currentAlso returns the objects that the next point may contain.
func (r *Replica) currentAlso() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for _, s := range r.also {
		all[s.object] = true
	}
	return all
}
