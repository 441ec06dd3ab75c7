package jsonschema

import (
	"slices"
	"strconv"
)

// fanout limits how references multiply subschemas. In the library, a 2 KB document with 24 schemas, each offering
// the next twice, becomes 2^24 subschemas.
//
// A schema that recurs at a nested value is a list or tree and counts once: the value determines the depth, and
// MaxSteps limits it.
func (d *document) fanout() error {
	for _, n := range d.nodes {
		count := n.countInPlace()
		d.longest = max(d.longest, count)
		switch {
		case count < 0:
			return n.at.refuse("refers to itself in an endless loop")
		case count > MaxInPlace:
			return n.at.refuse("applies more than " + strconv.Itoa(MaxInPlace) + " subschemas to one value, including references")
		}
	}
	if d.nodes[0].countWrittenOut() > MaxWrittenOut {
		return pointer(nil).refuse("has more than " + strconv.Itoa(MaxWrittenOut) + " subschemas when its references are expanded")
	}
	return nil
}

// onTheWay marks a node that is being counted, to find recursion.
const onTheWay = -1

// countInPlace counts the subschemas for n's value, at most MaxInPlace+1. It returns -1 for endless recursion.
func (n *node) countInPlace() int {
	if n.inPlace != 0 {
		return n.inPlace
	}
	n.inPlace = onTheWay
	sum := 1
	for _, next := range n.here() {
		count := next.countInPlace()
		if count == onTheWay {
			return onTheWay // n stays marked: the whole cycle is rejected
		}
		sum = min(sum+count, MaxInPlace+1)
	}
	n.inPlace = sum
	return sum
}

// countWrittenOut counts n's subschemas with references expanded, at most MaxWrittenOut+1.
func (n *node) countWrittenOut() int {
	switch n.writtenOut {
	case onTheWay:
		return 0
	case 0:
	default:
		return n.writtenOut
	}
	n.writtenOut = onTheWay
	sum := 1
	for _, nodes := range [][]*node{n.here(), n.inside} {
		for _, next := range nodes {
			sum = min(sum+next.countWrittenOut(), MaxWrittenOut+1)
		}
	}
	n.writtenOut = sum
	return sum
}

// here returns the subschemas that apply to the same value as n.
func (n *node) here() []*node {
	all := slices.Clip(n.same)
	if n.ref != nil {
		all = append(all, n.ref)
	}
	return append(all, n.dynamic...)
}
