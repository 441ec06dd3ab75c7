package rows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Packed is the values of a row, one after the other: copies pass millions of rows, and as
// values of their own they would cost more in the garbage collector than all the rest.
// Digests are of this encoding.
type Packed []byte

// The kinds of values. A text and bytes have their length before them.
const (
	ofNull byte = iota
	ofInteger
	ofText
	ofBytes
)

const sizeOfNumber = 8

// AppendNull appends NULL.
func (p Packed) AppendNull() Packed { return append(p, ofNull) }

// AppendInteger appends an integer.
func (p Packed) AppendInteger(n int64) Packed {
	return binary.BigEndian.AppendUint64(append(p, ofInteger), uint64(n))
}

// AppendText appends a text.
func (p Packed) AppendText(text []byte) Packed { return append(p.length(ofText, len(text)), text...) }

// AppendBytes appends bytes.
func (p Packed) AppendBytes(b []byte) Packed { return append(p.length(ofBytes, len(b)), b...) }

// AppendSpace appends a text or bytes of n bytes, which the caller writes into space.
func (p Packed) AppendSpace(isText bool, n int) (all Packed, space []byte) {
	kind := ofBytes
	if isText {
		kind = ofText
	}
	p = slices.Grow(p.length(kind, n), n)
	all = p[:len(p)+n]
	return all, all[len(p):]
}

// AppendTextBy appends a text that appendTo appends to what it gets.
func (p Packed) AppendTextBy(appendTo func([]byte) ([]byte, error)) (Packed, error) {
	p = p.length(ofText, 0)
	all, err := appendTo(p)
	if err != nil {
		return p, err
	}
	binary.BigEndian.PutUint64(all[len(p)-sizeOfNumber:], uint64(len(all)-len(p)))
	return all, nil
}

func (p Packed) length(kind byte, n int) Packed {
	return binary.BigEndian.AppendUint64(append(p, kind), uint64(n))
}

// Append appends a value of a Row.
func (p Packed) Append(v any) Packed {
	switch v := v.(type) {
	case nil:
		return p.AppendNull()
	case int64:
		return p.AppendInteger(v)
	case string:
		return append(p.length(ofText, len(v)), v...)
	case []byte:
		return p.AppendBytes(v)
	default:
		panic(fmt.Sprintf("rows: a value of type %T", v))
	}
}

// Pack appends the values of a row.
func (r Row) Pack(p Packed) Packed {
	for _, v := range r {
		p = p.Append(v)
	}
	return p
}

// Value is a value of a packed row: NULL, an integer, or a text or bytes.
type Value struct {
	kind    byte
	Integer int64
	Data    []byte // a part of the row
}

// IsNull reports whether the value is NULL.
func (v Value) IsNull() bool { return v.kind == ofNull }

// IsInteger reports whether the value is an integer.
func (v Value) IsInteger() bool { return v.kind == ofInteger }

// IsText reports whether the value is a text.
func (v Value) IsText() bool { return v.kind == ofText }

// Cut returns the first value and the rest.
func (p Packed) Cut() (v Value, rest Packed) {
	v.kind, p = p[0], p[1:]
	if v.kind == ofNull {
		return v, p
	}
	n := int64(binary.BigEndian.Uint64(p))
	p = p[sizeOfNumber:]
	if v.kind == ofInteger {
		v.Integer = n
		return v, p
	}
	v.Data = p[:n:n]
	return v, p[n:]
}

// First returns the first n values.
func (p Packed) First(n int) Packed {
	rest := p
	for range n {
		_, rest = rest.Cut()
	}
	return p[:len(p)-len(rest)]
}

// Row returns the values, which share no memory with p.
func (p Packed) Row() Row {
	r := Row{}
	for len(p) > 0 {
		var v Value
		v, p = p.Cut()
		switch v.kind {
		case ofNull:
			r = append(r, nil)
		case ofInteger:
			r = append(r, v.Integer)
		case ofText:
			r = append(r, string(v.Data))
		case ofBytes:
			r = append(r, bytes.Clone(v.Data))
		}
	}
	return r
}

// Packing returns a function that calls fn with each row packed.
func Packing(fn func(Packed) error) func(Row) error {
	var p Packed
	return func(r Row) error {
		p = r.Pack(p[:0])
		return fn(p)
	}
}
