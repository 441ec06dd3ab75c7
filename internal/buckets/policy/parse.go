package policy

import (
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// MaxSize is the maximum policy size in bytes.
const MaxSize = 20 << 10

// Error explains why a policy is invalid.
type Error struct{ Reason string }

func (e *Error) Error() string { return "the bucket policy is not valid: " + e.Reason }

// ErrorCode returns errcode.Invalid.
func (e *Error) ErrorCode() errcode.Code { return errcode.Invalid }

// Policy is a parsed bucket policy. It is immutable and safe for concurrent use.
type Policy struct {
	bucket     string
	vars       bool // whether ${…} is a variable
	statements []statement
}

// statement is a parsed statement.
type statement struct {
	allow      bool
	everybody  bool
	accounts   []string            // names or IDs, as written
	ids        []buckets.AccountID // resolved from accounts by Load or New
	actions    map[Action]bool     // all that match Action or NotAction
	resources  []glob              // without "arn:aws:s3:::"
	notThese   bool                // NotResource
	conditions []condition
}

// resourcePrefix begins the ARN of every bucket and object.
const resourcePrefix = "arn:aws:s3:::"

// Parse returns only errors of type *Error.
func Parse(document []byte, bucket string) (*Policy, error) {
	if len(document) > MaxSize {
		return nil, &Error{"it has more than " + strconv.Itoa(MaxSize) + " bytes"}
	}
	members, err := readJSON(document)
	if err != nil {
		return nil, &Error{err.Error()}
	}
	p := &Policy{bucket: bucket}
	var statements []any
	for _, m := range members {
		ok := true
		switch m.name {
		case "Version":
			switch m.value {
			case "2012-10-17":
				p.vars = true
			case "2008-10-17":
			default:
				return nil, &Error{"the Version is not known: expected 2012-10-17 or 2008-10-17"}
			}
		case "Id":
			_, ok = m.value.(string)
		case "Statement":
			if statements, ok = m.value.([]any); !ok {
				statements, ok = []any{m.value}, true
			}
		default:
			return nil, &Error{"the member " + strconv.Quote(m.name) + " is not known: expected Version, Id and Statement"}
		}
		if !ok {
			return nil, &Error{"the member " + m.name + " is not a string"}
		}
	}
	if len(statements) == 0 {
		return nil, &Error{"it has no Statement"}
	}
	for i, raw := range statements {
		object, ok := raw.([]member)
		if !ok {
			return nil, &Error{"statement " + strconv.Itoa(i+1) + " is not an object"}
		}
		s, reason := p.parseStatement(object)
		if reason != "" {
			return nil, &Error{"statement " + strconv.Itoa(i+1) + ": " + reason}
		}
		p.statements = append(p.statements, s)
	}
	return p, nil
}

// parseStatement parses a statement. reason explains the mistake; "" if it is valid.
func (p *Policy) parseStatement(members []member) (s statement, reason string) {
	seen := map[string]bool{}
	for _, m := range members {
		seen[m.name] = true
		switch m.name {
		case "Sid":
			if _, ok := m.value.(string); !ok {
				reason = "the Sid is not a string"
			}
		case "Effect":
			if s.allow = m.value == "Allow"; !s.allow && m.value != "Deny" {
				reason = "the Effect is neither Allow nor Deny"
			}
		case "Principal":
			reason = s.parsePrincipal(m.value)
		case "NotPrincipal":
			reason = "NotPrincipal is not supported: use Principal with a condition on aws:PrincipalAccount"
		case "Action", "NotAction":
			reason = s.parseActions(m.name, m.value)
		case "Resource", "NotResource":
			reason = p.parseResources(&s, m.name, m.value)
		case "Condition":
			reason = p.parseConditions(&s, m.value)
		default:
			reason = "the member " + strconv.Quote(m.name) + " is not known"
		}
		if reason != "" {
			return s, reason
		}
	}
	return s, s.check(seen)
}

// check requires the elements that IAM requires, and rejects conditions that could never apply: the author expects an
// effect.
func (s *statement) check(seen map[string]bool) (reason string) {
	switch {
	case !seen["Effect"]:
		return "it has no Effect"
	case !seen["Principal"]:
		return "it has no Principal"
	case seen["Action"] == seen["NotAction"]:
		return "it needs either Action or NotAction"
	case seen["Resource"] == seen["NotResource"]:
		return "it needs either Resource or NotResource"
	}
	kinds := s.kinds()
	applies := func(of func(Action) bool) bool {
		return slices.ContainsFunc(inOrder, func(a Action) bool { return s.actions[a] && known[a]&kinds != 0 && of(a) })
	}
	if !applies(anyAction) {
		return "no action applies to a resource: actions on objects need a resource such as " + resourcePrefix + "BUCKET/*, actions on the bucket " + resourcePrefix + "BUCKET"
	}
	for i := range s.conditions {
		if k := &s.conditions[i].key; !applies(k.of) {
			return "the condition key " + string(k.name) + " applies to none of the actions and resources"
		}
	}
	return ""
}

// kinds returns whether the resources can be the bucket, objects or both.
func (s *statement) kinds() (all resourceKind) {
	if s.notThese {
		return ofBucket | ofObject
	}
	for _, g := range s.resources {
		if strings.Contains(g[0].literal, "/") {
			all |= ofObject
			continue
		}
		if all |= ofBucket; len(g) > 1 {
			all |= ofObject
		}
	}
	return all
}

// parsePrincipal parses "*", {"AWS": …} or {"CanonicalUser": …}.
func (s *statement) parsePrincipal(v any) (reason string) {
	if v == "*" {
		s.everybody = true
		return ""
	}
	members, ok := v.([]member)
	if !ok || len(members) == 0 {
		return `the Principal is neither "*" nor an object such as {"AWS": "ACCOUNT"}`
	}
	for _, m := range members {
		all, ok := stringsOf(m.value)
		if !ok {
			return "the principal " + m.name + " is neither a string nor a list of strings"
		}
		for _, name := range all {
			switch m.name {
			case "AWS":
				reason = s.addAccount(name)
			case "CanonicalUser":
				if _, err := buckets.ParseUUID(name); err != nil {
					reason = "the canonical user " + strconv.Quote(name) + " is not an account ID"
				}
				s.accounts = append(s.accounts, name)
			default:
				reason = "the kind of principal " + strconv.Quote(m.name) + " is not supported: expected AWS or CanonicalUser"
			}
			if reason != "" {
				return reason
			}
		}
	}
	return ""
}

// addAccount takes a name, an ID or arn:aws:iam::ACCOUNT:root.
func (s *statement) addAccount(text string) (reason string) {
	if text == "*" {
		s.everybody = true
		return ""
	}
	name := text
	if rest, ok := strings.CutPrefix(text, "arn:aws:iam::"); ok {
		if name, ok = strings.CutSuffix(rest, ":root"); !ok {
			return "the principal " + strconv.Quote(text) + " is not supported: accounts have no users and roles, so expected arn:aws:iam::ACCOUNT:root"
		}
	}
	if buckets.CheckAccountName(strings.ToLower(name)) != nil {
		return "the principal " + strconv.Quote(text) + ` is not valid: expected "*", the name or ID of an account, or arn:aws:iam::ACCOUNT:root`
	}
	s.accounts = append(s.accounts, name)
	return ""
}

// parseActions expands patterns to known actions, so that an evaluation needs no patterns.
func (s *statement) parseActions(name string, v any) (reason string) {
	patterns, ok := stringsOf(v)
	if !ok {
		return "the member " + name + " is neither a string nor a list of strings"
	}
	named := map[Action]bool{}
	for _, p := range patterns {
		matched := matchActions(p)
		if len(matched) == 0 {
			return "the action " + strconv.Quote(p) + " is not known"
		}
		for _, a := range matched {
			named[a] = true
		}
	}
	s.actions = named
	if name == "NotAction" {
		s.actions = map[Action]bool{}
		for a := range known {
			if !named[a] {
				s.actions[a] = true
			}
		}
	}
	return ""
}

// parseResources requires resources in this bucket.
func (p *Policy) parseResources(s *statement, name string, v any) (reason string) {
	all, ok := stringsOf(v)
	if !ok {
		return "the member " + name + " is neither a string nor a list of strings"
	}
	s.notThese = name == "NotResource"
	for _, text := range all {
		rest, ok := strings.CutPrefix(text, resourcePrefix+p.bucket)
		if !ok || rest != "" && rest[0] != '/' && rest[0] != '*' {
			return "the resource " + strconv.Quote(text) + " is not of this bucket: expected " + resourcePrefix + p.bucket + " or " + resourcePrefix + p.bucket + "/*"
		}
		g, reason := parseGlob(rest, true, p.vars)
		if reason != "" {
			return "the resource " + strconv.Quote(text) + " is not valid: " + reason
		}
		s.resources = append(s.resources, joined(p.bucket, g))
	}
	return ""
}

// joined prepends text to a pattern.
func joined(text string, g glob) glob {
	if len(g) > 0 && g[0].kind == literal {
		g[0].literal = text + g[0].literal
		return g
	}
	return append(glob{{literal: text}}, g...)
}

// parseConditions parses {OPERATOR: {KEY: VALUES}}.
func (p *Policy) parseConditions(s *statement, v any) (reason string) {
	operators, ok := v.([]member)
	if !ok {
		return "the Condition is not an object"
	}
	for _, o := range operators {
		of, ok := o.value.([]member)
		if !ok {
			return "the condition " + o.name + " is not an object"
		}
		seen := map[string]bool{}
		for _, m := range of {
			c, reason := parseCondition(o.name, m.name, m.value, p.vars)
			if reason != "" {
				return reason
			}
			id := string(c.key.name) + "/" + c.name
			if seen[id] {
				return "the condition key " + m.name + " occurs twice"
			}
			seen[id] = true
			s.conditions = append(s.conditions, c)
		}
		if len(of) == 0 {
			if _, _, ok := parseOperator(o.name); !ok {
				return "the condition operator " + strconv.Quote(o.name) + " is not known"
			}
		}
	}
	return ""
}
