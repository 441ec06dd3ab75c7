package rows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Packed encodes a row's values in sequence: copies handle millions of rows, and separate values would cost more in
// the garbage collector than everything else. Digests depend on the encoding.
type Packed []byte

// Texts and bytes are prefixed with their length.
const (
	ofNull byte = iota
	ofInteger
	ofText
	ofBytes
)

const sizeOfNumber = 8

func (p Packed) AppendNull() Packed { return append(p, ofNull) }

func (p Packed) AppendInteger(n int64) Packed {
	return binary.BigEndian.AppendUint64(append(p, ofInteger), uint64(n))
}

func (p Packed) AppendText(text []byte) Packed { return append(p.length(ofText, len(text)), text...) }

func (p Packed) AppendBytes(b []byte) Packed { return append(p.length(ofBytes, len(b)), b...) }

// AppendSpace appends n bytes (text or bytes), which the caller writes into space.
func (p Packed) AppendSpace(isText bool, n int) (all Packed, space []byte) {
	kind := ofBytes
	if isText {
		kind = ofText
	}
	p = slices.Grow(p.length(kind, n), n)
	all = p[:len(p)+n]
	return all, all[len(p):]
}

// AppendTextBy appends a text that appendTo appends to its argument.
func (p Packed) AppendTextBy(appendTo func([]byte) ([]byte, error)) (Packed, error) {
	p = p.length(ofText, 0)
	all, err := appendTo(p)
	if err != nil {
		return p, err
	}
	binary.BigEndian.PutUint64(all[len(p)-sizeOfNumber:], uint64(len(all)-len(p)))
	return all, nil
}

// length appends a text's or bytes' kind and length.
func (p Packed) length(kind byte, n int) Packed {
	return binary.BigEndian.AppendUint64(append(p, kind), uint64(n))
}

// Append appends a value; it panics on a type that a Row may not contain.
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

// Pack appends the row's values to p.
func (r Row) Pack(p Packed) Packed {
	for _, v := range r {
		p = p.Append(v)
	}
	return p
}

// Value is a packed value: NULL, an integer, a text or bytes.
type Value struct {
	kind    byte
	Integer int64
	Data    []byte // text or bytes, shared with the packed row
}

func (v Value) IsNull() bool { return v.kind == ofNull }

func (v Value) IsInteger() bool { return v.kind == ofInteger }

func (v Value) IsText() bool { return v.kind == ofText }

// Cut returns the first value and the rest. p must not be empty.
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

// First returns the first n values, without copying.
func (p Packed) First(n int) Packed {
	rest := p
	for range n {
		_, rest = rest.Cut()
	}
	return p[:len(p)-len(rest)]
}

// Row copies the values.
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

// Packing adapts fn to unpacked rows.
func Packing(fn func(Packed) error) func(Row) error {
	var p Packed
	return func(r Row) error {
		p = r.Pack(p[:0])
		return fn(p)
	}
}
