package jsonschema

import (
	"slices"
	"strconv"
)

// fanout counts what references multiply. A document of 2 KB in which each of
// 24 schemas offers the next one twice is 2^24 subschemas to the library, for
// one value or, when there are members between them, for one nested value.
//
// A schema that comes back to itself on the way into a value is a list or a
// tree, and counts once: how far it is followed is for the value to say, and
// for MaxSteps to end.
func (d *document) fanout() error {
	for _, n := range d.nodes {
		count := n.countInPlace()
		d.longest = max(d.longest, count)
		switch {
		case count < 0:
			return n.at.refuse("refers to itself in an endless loop")
		case count > MaxInPlace:
			return n.at.refuse("applies more than " + strconv.Itoa(MaxInPlace) + " subschemas to one value, references included")
		}
	}
	if d.nodes[0].countWrittenOut() > MaxWrittenOut {
		return pointer(nil).refuse("has more than " + strconv.Itoa(MaxWrittenOut) + " subschemas when its references are expanded")
	}
	return nil
}

// onTheWay marks a node whose count is under way.
const onTheWay = -1

// countInPlace is how many subschemas one value is held against that is held
// against n, at most MaxInPlace+1; -1 when there is no end.
func (n *node) countInPlace() int {
	if n.inPlace != 0 {
		return n.inPlace
	}
	n.inPlace = onTheWay
	sum := 1
	for _, next := range n.here() {
		count := next.countInPlace()
		if count == onTheWay {
			return onTheWay // and n stays marked: all on the way are refused
		}
		sum = min(sum+count, MaxInPlace+1)
	}
	n.inPlace = sum
	return sum
}

// countWrittenOut is how many subschemas n is with every reference written
// out, at most MaxWrittenOut+1.
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

// here are the subschemas that the value of n is held against as well. All
// that a $dynamicRef may lead to are among them.
func (n *node) here() []*node {
	all := slices.Clip(n.same)
	if n.ref != nil {
		all = append(all, n.ref)
	}
	return append(all, n.dynamic...)
}
