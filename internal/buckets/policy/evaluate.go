package policy

import (
	"cmp"
	"slices"

	"holdfast/internal/buckets"
)

// Request is an access to decide about.
type Request struct {
	Account buckets.AccountID // "" for an anonymous client
	Action  Action
	Object  string // "" for an action on the bucket
	Context Context
}

// Context gives the values that conditions compare.
type Context interface {
	// Value returns nil if the request lacks the key. name is the part after the slash. Value is not called for
	// aws:Principal keys.
	Value(k Key, name string) ([]string, error)
}

// Decision is the result of Evaluate. Later values take precedence.
type Decision uint8

const (
	None             Decision = iota // no statement applies
	AllowedAccount                   // allowed for the signer's account
	AllowedEverybody                 // allowed for everybody
	Denied
)

// Evaluate gives Deny statements precedence. It returns only errors of the Context. If a value cannot be loaded, a Deny
// statement that depends on it denies, and an Allow statement allows nothing. Evaluate then returns the error, unless
// another statement decides. So the caller can answer with a status that makes the client retry.
func (p *Policy) Evaluate(r Request) (d Decision, err error) {
	e := evaluation{Request: r, resource: p.bucket}
	if known[r.Action] == ofObject {
		e.resource += "/" + r.Object
	}
	var denies, allows error
	for i := range p.statements {
		s := &p.statements[i]
		would := Denied
		if s.allow {
			if would = AllowedAccount; s.everybody {
				would = AllowedEverybody
			}
		}
		if would <= d || !s.actions[r.Action] || !s.hasPrincipal(r.Account) {
			continue
		}
		switch ok, err := e.applies(s); {
		case !ok:
		case err == nil:
			d = would
		case s.allow:
			allows = err
		default:
			denies = err
		}
	}
	switch {
	case d == Denied:
		return Denied, nil
	case denies != nil:
		return Denied, denies
	case d == None:
		return None, allows
	}
	return d, nil
}

// Shares reports whether a statement allows the account anything. "" is an anonymous client. A nil policy allows
// nothing.
func (p *Policy) Shares(account buckets.AccountID) bool {
	return p != nil && slices.ContainsFunc(p.statements, func(s statement) bool { return s.allow && s.hasPrincipal(account) })
}

// hasPrincipal reports whether the statement concerns the account; "" is an anonymous client.
func (s *statement) hasPrincipal(account buckets.AccountID) bool {
	return s.everybody || account != "" && slices.Contains(s.ids, account)
}

// evaluation is a request while statements are tested.
type evaluation struct {
	Request
	resource string // BUCKET or BUCKET/OBJECT
	err      error  // the first error of the Context since it was last cleared
}

// applies reports whether a statement applies to the resource and its conditions hold. With an error, it returns true:
// the statement applies unless the value that cannot be loaded says otherwise.
func (e *evaluation) applies(s *statement) (ok bool, err error) {
	of, unknown := e.hasResource(s)
	if !of {
		return false, nil
	}
	ok, err = e.holds(s.conditions)
	return ok, cmp.Or(unknown, err)
}

// hasResource tests Resource or NotResource. If a variable cannot be loaded, the statement counts as applying, and err
// is set.
func (e *evaluation) hasResource(s *statement) (ok bool, err error) {
	for _, g := range s.resources {
		e.err = nil
		if g.match(e.resource, e.variable) {
			return !s.notThese, nil
		}
		err = cmp.Or(err, e.err)
	}
	return s.notThese || err != nil, err
}

// variable returns a variable's value or its default.
func (e *evaluation) variable(v variable) (string, bool) {
	if values := e.values(v.key, v.name); len(values) > 0 {
		return values[0], true
	}
	return v.absent, v.hasDef
}

// values returns the request's values for a key; nil if the action does not have the key. Keys about the principal need
// no Context.
func (e *evaluation) values(k key, name string) []string {
	if !k.of(e.Action) {
		return nil
	}
	switch k.name {
	case PrincipalAccount, PrincipalArn:
		switch {
		case e.Account == "":
			return nil
		case k.name == PrincipalArn:
			return []string{"arn:aws:iam::" + string(e.Account) + ":root"}
		}
		return []string{string(e.Account)}
	case PrincipalType:
		if e.Account == "" {
			return []string{"Anonymous"}
		}
		return []string{"Account"}
	}
	values, err := e.Context.Value(k.name, name)
	if err != nil && e.err == nil {
		e.err = err
	}
	return values
}

// holds tests all conditions. A condition that is certainly false decides, even if others cannot be loaded.
func (e *evaluation) holds(all []condition) (ok bool, err error) {
	for i := range all {
		c := &all[i]
		e.err = nil
		ok := c.holds(e.values(c.key, c.name), e.variable)
		if e.err == nil && !ok {
			return false, nil
		}
		err = cmp.Or(err, e.err)
	}
	return true, err
}
