package maintenance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"

	"holdfast/internal/buckets"
)

// body is a reference with its path.
type body struct {
	path string
	ref  buckets.Reference
}

// newBody derives the path.
func newBody(r buckets.Reference) body {
	return body{buckets.BodyPath(r.Owner, r.Bucket, r.ID, r.Name), r}
}

// references is Store.References, and fails at a row whose IDs or nodes are invalid.
func references(ctx context.Context, from buckets.References, fn func(buckets.Reference) error) error {
	return from.References(ctx, func(r buckets.Reference) error {
		if err := r.Check(); err != nil {
			return err
		}
		return fn(r)
	})
}

// encodeLine returns "PATH<tab>JSON", which sorts by path.
func encodeLine(path string, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(path), '\t'), text...), nil
}

var errLine = errors.New("the progress file of an audit or drain is damaged: run the command with --restart")

// decodeLine reverses encodeLine. It returns errLine for a damaged file.
func decodeLine(line []byte, v any) (path string, err error) {
	before, text, ok := bytes.Cut(line, []byte{'\t'})
	if !ok || json.Unmarshal(text, v) != nil {
		return "", errLine
	}
	return string(before), nil
}

// bodies reads references from a sorted file.
type bodies struct {
	*lines
	body
}

// next moves to the next reference that keep accepts. At the end, ended is true.
func (b *bodies) next(keep func(*buckets.Reference) bool) error {
	for {
		if err := b.lines.next(); err != nil || b.ended {
			return err
		}
		b.body = body{}
		var err error
		if b.path, err = decodeLine(b.line, &b.ref); err != nil {
			return err
		}
		if keep(&b.ref) {
			return nil
		}
	}
}

// filter is an approximate set of path hashes. has may return true for a path that was not added.
type filter struct {
	seed maphash.Seed
	bits []uint64
}

const filterBits = 1 << 25 // 4 MiB

// newFilter returns an empty set.
func newFilter() *filter { return &filter{maphash.MakeSeed(), make([]uint64, filterBits/64)} }

func (f *filter) add(path string) {
	h := maphash.String(f.seed, path) % filterBits
	f.bits[h/64] |= 1 << (h % 64)
}

func (f *filter) has(path string) bool {
	h := maphash.String(f.seed, path) % filterBits
	return f.bits[h/64]&(1<<(h%64)) != 0
}
