package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Digest is a row count and the sum of the row hashes.
type Digest struct {
	Rows   int64
	Hi, Lo uint64
}

// Add adds a row's hash. The order of rows does not matter, so engines with different orders compare.
func (d *Digest) Add(p Packed) {
	sum := sha256.Sum256(p)
	var carry uint64
	d.Rows++
	d.Lo, carry = bits.Add64(d.Lo, binary.BigEndian.Uint64(sum[:]), 0)
	d.Hi, _ = bits.Add64(d.Hi, binary.BigEndian.Uint64(sum[8:]), carry)
}

func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.Hi, d.Lo) }

func (r Row) Clone() Row {
	c := slices.Clone(r)
	for i, v := range c {
		if b, ok := v.([]byte); ok {
			c[i] = slices.Clone(b)
		}
	}
	return c
}

// Text returns the row as a JSON array, for logs and the change log's keys. ParseKey reverses it.
func (r Row) Text() string {
	text, err := json.Marshal([]any(r))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ParseKey parses a key, or its first columns, from a JSON array.
func (t *Table) ParseKey(text string) (Row, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var key []any
	if err := d.Decode(&key); err != nil || len(key) > t.Key {
		return nil, fmt.Errorf("%s: not a key: %s", t.Name, text)
	}
	for i, v := range key {
		switch v := v.(type) {
		case string:
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return nil, fmt.Errorf("%s: not a key: %s", t.Name, text)
			}
			key[i] = n
		default:
			return nil, fmt.Errorf("%s: not a key: %s", t.Name, text)
		}
	}
	return key, nil
}

// Compare orders rows of integers and texts; other values panic. Texts compare by bytes.
func (r Row) Compare(o Row) int {
	return slices.CompareFunc(r, o, func(a, b any) int {
		if n, ok := a.(int64); ok {
			switch m := b.(int64); {
			case n < m:
				return -1
			case n > m:
				return 1
			}
			return 0
		}
		return strings.Compare(a.(string), b.(string))
	})
}
