package jsonschema

import (
	"net/url"
	"strings"
)

// baseURL is the base URL of documents without an $id. Nothing is ever fetched.
const baseURL = "holdfast://schema/document"

// name registers a subschema's $id and anchors.
func (d *document) name(n *node) error {
	if _, ok := n.keywords["$schema"]; ok && !isDialect(n.text("$schema")) {
		return n.at.add("$schema").refuse("must be https://json-schema.org/draft/2020-12/schema or absent: only Draft 2020-12 is supported")
	}
	for _, old := range []string{"$recursiveRef", "$recursiveAnchor"} {
		if _, ok := n.keywords[old]; ok {
			return n.at.add(old).refuse("is not supported in Draft 2020-12: use $dynamicRef and $dynamicAnchor")
		}
	}
	base := baseURL
	if n.resource != nil {
		base = n.resource.url
	}
	id := n.text("$id")
	id, _, _ = strings.Cut(id, "#")
	if id != "" || n.resource == nil {
		address, _, err := join(base, id)
		if err != nil {
			return n.at.add("$id").refuse("is not a valid URI reference")
		}
		if d.resources[address] != nil || address == baseURL && len(n.at) > 0 {
			return n.at.add("$id").refuse("is a duplicate: another schema in the document uses the same name")
		}
		n.resource = &resource{url: address, node: n, anchors: map[string]*node{}}
		d.resources[address] = n.resource
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		anchor := n.text(keyword)
		if anchor == "" {
			continue
		}
		if other := n.resource.anchors[anchor]; other != nil && other != n {
			return n.at.add(keyword).refuse("is a duplicate: another schema in the document uses the same name")
		}
		n.resource.anchors[anchor] = n
		if keyword == "$dynamicAnchor" {
			d.dynamic[anchor] = append(d.dynamic[anchor], n)
		}
	}
	return nil
}

// resolve finds the targets of all references.
func (d *document) resolve() error {
	for _, n := range d.nodes {
		for _, keyword := range []string{"$ref", "$dynamicRef"} {
			if _, ok := n.keywords[keyword]; !ok {
				continue
			}
			target, reason := d.target(n.resource, n.text(keyword))
			if target == nil {
				return n.at.add(keyword).refuse(reason)
			}
			if keyword == "$ref" {
				n.ref = target
				continue
			}
			n.dynamic = []*node{target}
			_, fragment, _ := strings.Cut(n.text(keyword), "#")
			if anchor := target.text("$dynamicAnchor"); anchor != "" && anchor == fragment {
				n.dynamic = d.dynamic[anchor] // the target depends on the evaluation path
			}
		}
	}
	return nil
}

// target finds a reference's target, or returns a reason.
func (d *document) target(from *resource, ref string) (*node, string) {
	address, fragment, err := join(from.url, ref)
	if err != nil {
		return nil, "is not a valid URI reference"
	}
	r := d.resources[address]
	if address == baseURL {
		r = d.nodes[0].resource
	}
	var n *node
	switch {
	case r == nil:
		return nil, "refers to another document: only references within the document are supported"
	case fragment == "":
		n = r.node
	case strings.HasPrefix(fragment, "/"):
		n = d.byPointer[r.node.at.String()+fragment]
	default:
		n = r.anchors[fragment]
	}
	if n == nil {
		return nil, "does not point to a schema in the document"
	}
	return n, ""
}

// join resolves a reference and splits off its fragment.
func join(base, ref string) (address, fragment string, err error) {
	ref, fragment, _ = strings.Cut(ref, "#")
	if fragment, err = url.PathUnescape(fragment); err != nil {
		return "", "", err
	}
	if ref == "" {
		return base, fragment, nil
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", "", err
	}
	r, err := url.Parse(ref)
	if err != nil {
		return "", "", err
	}
	if !r.IsAbs() && b.Opaque != "" {
		return "", "", url.InvalidHostError(ref)
	}
	return b.ResolveReference(r).String(), fragment, nil
}
