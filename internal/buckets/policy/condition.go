package policy

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// condition is a condition key with an operator and the values to compare with.
type condition struct {
	key  key
	name string // the part after the slash
	operator
	values []value
}

// operator is a condition operator, e.g. ForAnyValue:StringNotLike.
type operator struct {
	test     func(v *value, have string, vars func(variable) (string, bool)) bool // compares a value; vars resolves policy variables
	negated  bool                                                                 // must differ from all values
	ifExists bool                                                                 // holds if the request lacks the key
	null     bool                                                                 // the operator Null, which tests whether the key is missing
	set      setOperator
}

// setOperator says how several values in the request are compared.
type setOperator uint8

const (
	single setOperator = iota
	forAll
	forAny
)

// value is a value in a policy, parsed for the operator's kind.
type value struct {
	text    glob    // for text and ARNs
	number  float64 // for numbers and dates (Unix seconds)
	network netip.Prefix
	flag    bool // for Bool
	broad   bool // contains a wildcard or variable, so it limits nothing for certain
}

// baseOperator is an operator without prefix and suffix.
type baseOperator struct {
	kind    kind
	wild    bool // * and ? are wildcards
	negated bool
	test    func(v *value, have string, vars func(variable) (string, bool)) bool
}

// operators are IAM's condition operators except BinaryEquals.
var operators = map[string]baseOperator{
	"StringEquals":              {test: equalText},
	"StringNotEquals":           {test: equalText, negated: true},
	"StringEqualsIgnoreCase":    {test: equalFold},
	"StringNotEqualsIgnoreCase": {test: equalFold, negated: true},
	"StringLike":                {test: likeText, wild: true},
	"StringNotLike":             {test: likeText, wild: true, negated: true},
	"ArnEquals":                 {kind: arn, test: likeText, wild: true},
	"ArnLike":                   {kind: arn, test: likeText, wild: true},
	"ArnNotEquals":              {kind: arn, test: likeText, wild: true, negated: true},
	"ArnNotLike":                {kind: arn, test: likeText, wild: true, negated: true},
	"Bool":                      {kind: boolean, test: equalFlag},
	"IpAddress":                 {kind: network, test: inNetwork},
	"NotIpAddress":              {kind: network, test: inNetwork, negated: true},
	"NumericEquals":             {kind: number, test: compared(parseNumber, func(a, b float64) bool { return a == b })},
	"NumericNotEquals":          {kind: number, test: compared(parseNumber, func(a, b float64) bool { return a == b }), negated: true},
	"NumericLessThan":           {kind: number, test: compared(parseNumber, func(a, b float64) bool { return a < b })},
	"NumericLessThanEquals":     {kind: number, test: compared(parseNumber, func(a, b float64) bool { return a <= b })},
	"NumericGreaterThan":        {kind: number, test: compared(parseNumber, func(a, b float64) bool { return a > b })},
	"NumericGreaterThanEquals":  {kind: number, test: compared(parseNumber, func(a, b float64) bool { return a >= b })},
	"DateEquals":                {kind: date, test: compared(parseDate, func(a, b float64) bool { return a == b })},
	"DateNotEquals":             {kind: date, test: compared(parseDate, func(a, b float64) bool { return a == b }), negated: true},
	"DateLessThan":              {kind: date, test: compared(parseDate, func(a, b float64) bool { return a < b })},
	"DateLessThanEquals":        {kind: date, test: compared(parseDate, func(a, b float64) bool { return a <= b })},
	"DateGreaterThan":           {kind: date, test: compared(parseDate, func(a, b float64) bool { return a > b })},
	"DateGreaterThanEquals":     {kind: date, test: compared(parseDate, func(a, b float64) bool { return a >= b })},
}

// equalText compares with case. A variable without a value equals nothing.
func equalText(v *value, have string, vars func(variable) (string, bool)) bool {
	s, ok := v.text.text(vars)
	return ok && s == have
}

// equalFold compares without case.
func equalFold(v *value, have string, vars func(variable) (string, bool)) bool {
	s, ok := v.text.text(vars)
	return ok && strings.EqualFold(s, have)
}

// likeText matches a pattern.
func likeText(v *value, have string, vars func(variable) (string, bool)) bool {
	return v.text.match(have, vars)
}

// equalFlag treats anything but "true" as false.
func equalFlag(v *value, have string, _ func(variable) (string, bool)) bool {
	return (have == "true") == v.flag
}

// inNetwork compares IPv4 addresses in IPv6 form as IPv4.
func inNetwork(v *value, have string, _ func(variable) (string, bool)) bool {
	ip, err := netip.ParseAddr(have)
	return err == nil && v.network.Contains(ip.Unmap().WithZone(""))
}

// compared returns a test on parsed numbers. A value that cannot be parsed matches nothing.
func compared(parse func(string) (float64, bool), holds func(have, value float64) bool) func(*value, string, func(variable) (string, bool)) bool {
	return func(v *value, have string, _ func(variable) (string, bool)) bool {
		n, ok := parse(have)
		return ok && holds(n, v.number)
	}
}

// parseNumber rejects forms that Go accepts but JSON does not, such as 0x1p2 and NaN.
func parseNumber(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// parseDate accepts ISO 8601 or Unix seconds.
func parseDate(s string) (float64, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, true
		}
	}
	return parseNumber(s)
}

// parseOperator splits e.g. ForAnyValue:StringLikeIfExists. Null takes no prefix and no suffix.
func parseOperator(name string) (op operator, base baseOperator, ok bool) {
	rest := name
	if prefix, after, found := strings.Cut(name, ":"); found {
		switch prefix {
		case "ForAllValues":
			op.set = forAll
		case "ForAnyValue":
			op.set = forAny
		default:
			return op, base, false
		}
		rest = after
	}
	if rest == "Null" {
		op.null = true
		return op, baseOperator{kind: boolean}, op.set == single
	}
	rest, op.ifExists = strings.CutSuffix(rest, "IfExists")
	base, ok = operators[rest]
	op.test, op.negated = base.test, base.negated
	return op, base, ok
}

// applies lets text operators compare flags and numbers, because many policies compare these as text.
func (o *baseOperator) applies(k kind) bool {
	switch o.kind {
	case text:
		return k != network
	case arn:
		return k == arn
	}
	return k == o.kind
}

// parseCondition parses a key with its values. reason tells a person why the condition is not valid; "" if it is. vars
// allows policy variables.
func parseCondition(operatorName, keyName string, raw any, vars bool) (c condition, reason string) {
	op, base, ok := parseOperator(operatorName)
	if !ok {
		return c, "the condition operator " + strconv.Quote(operatorName) + " is not known"
	}
	c.operator = op
	if c.key, c.name, ok = findKey(keyName); !ok {
		return c, "the condition key " + strconv.Quote(keyName) + " is not known"
	}
	switch {
	case op.null:
	case !base.applies(c.key.kind) && !(base.kind == number && c.key.name == EpochTime):
		return c, "the operator " + operatorName + " does not apply to the condition key " + string(c.key.name)
	case c.key.multi && op.set == single:
		return c, "the condition key " + string(c.key.name) + " has several values: use ForAllValues:" + operatorName + " or ForAnyValue:" + operatorName
	}
	list, ok := raw.([]any)
	if !ok {
		list = []any{raw}
	}
	if len(list) == 0 {
		return c, "the condition key " + keyName + " has no value"
	}
	for _, value := range list {
		s, ok := scalar(value)
		if !ok {
			return c, "a value of the condition key " + keyName + " is neither a string, a number nor true or false"
		}
		v, reason := base.parse(s, vars)
		if reason != "" {
			return c, "a value of the condition key " + keyName + " is not valid: " + reason
		}
		c.values = append(c.values, v)
	}
	return c, ""
}

// scalar returns a JSON value as text. Policies may give numbers and flags unquoted.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// parse parses a value for the operator's kind.
func (o *baseOperator) parse(s string, vars bool) (v value, reason string) {
	var ok bool
	switch o.kind {
	case number:
		v.number, ok = parseNumber(s)
		reason = "expected a number"
	case date:
		v.number, ok = parseDate(s)
		reason = "expected a date, e.g. 2026-01-31T00:00:00Z"
	case boolean:
		v.flag, ok = strings.EqualFold(s, "true"), strings.EqualFold(s, "true") || strings.EqualFold(s, "false")
		reason = "expected true or false"
	case network:
		v.network, ok = parseNetwork(s)
		reason = "expected an address or network, e.g. 192.0.2.0/24"
	default:
		v.text, reason = parseGlob(s, o.wild, vars)
		v.broad = !v.text.isFixed()
		return v, reason
	}
	if ok {
		reason = ""
	}
	return v, reason
}

// parseNetwork accepts an address as a network with a single address.
func parseNetwork(s string) (netip.Prefix, bool) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	n, err := netip.ParsePrefix(s)
	return n, err == nil && !n.Addr().Is4In6()
}

// holds reports whether the condition is met. have is nil if the request lacks the key.
func (c *condition) holds(have []string, vars func(variable) (string, bool)) bool {
	if c.null {
		for i := range c.values {
			if c.values[i].flag == (len(have) == 0) {
				return true
			}
		}
		return false
	}
	if len(have) == 0 {
		return c.ifExists || c.set == forAll || c.negated && c.set == single
	}
	for _, value := range have {
		switch matches := c.matches(value, vars); {
		case matches && c.set != forAll:
			return true
		case !matches && c.set == forAll:
			return false
		}
	}
	return c.set == forAll
}

// matches compares a value. With a negated operator, it must differ from all values of the condition.
func (c *condition) matches(have string, vars func(variable) (string, bool)) bool {
	for i := range c.values {
		if c.test(&c.values[i], have, vars) {
			return !c.negated
		}
	}
	return c.negated
}
