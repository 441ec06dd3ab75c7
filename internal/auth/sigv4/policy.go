package sigv4

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParsePolicy parses a base64 policy document.
func ParsePolicy(text string) (p Policy, err error) {
	if len(text) > maxPolicy {
		return p, refuse(InvalidPolicy, "the policy of the form is longer than %d bytes", maxPolicy)
	}
	document, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return p, refuse(InvalidPolicy, "the policy of the form is not valid base64")
	}
	// A map keeps member names case-sensitive; a struct would not.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return p, refuse(InvalidPolicy, "the policy of the form is not a JSON object")
	}
	for name := range members {
		if name != "expiration" && name != "conditions" {
			return p, refuse(InvalidPolicy, "the policy of the form may have the members expiration and conditions only")
		}
	}
	var expiration string
	if json.Unmarshal(members["expiration"], &expiration) != nil {
		return p, refuse(InvalidPolicy, "the form's policy must have an expiration")
	}
	if p.Expiration, err = time.Parse(time.RFC3339, expiration); err != nil {
		return p, refuse(InvalidPolicy, "the expiration of the policy must be a time such as 2013-08-01T12:00:00.000Z")
	}
	var conditions []json.RawMessage
	if json.Unmarshal(members["conditions"], &conditions) != nil || conditions == nil {
		return p, refuse(InvalidPolicy, "the form's policy must have a list of conditions")
	}
	p.MaxSize, p.signature = math.MaxInt64, version4Fields
	for _, c := range conditions {
		if err := p.add(c); err != nil {
			return Policy{}, err
		}
	}
	return p, nil
}

// add adds a condition: {"field": "value"}, ["eq", "$field", "value"], ["starts-with", "$field", "value"] or
// ["content-length-range", min, max].
func (p *Policy) add(text json.RawMessage) error {
	if bytes.HasPrefix(text, []byte("{")) {
		var exact map[string]json.RawMessage
		if json.Unmarshal(text, &exact) != nil || len(exact) == 0 {
			return badCondition()
		}
		for field, quoted := range exact {
			var value string
			if !isString(quoted, &value) {
				return badCondition()
			}
			p.conditions = append(p.conditions, condition{field: strings.ToLower(field), value: value})
		}
		return nil
	}
	var parts []json.RawMessage
	var operator, field, value string
	if json.Unmarshal(text, &parts) != nil || len(parts) != 3 || !isString(parts[0], &operator) {
		return badCondition()
	}
	operator = strings.ToLower(operator)
	if operator == "content-length-range" {
		return p.limit(parts[1], parts[2])
	}
	if operator != "eq" && operator != "starts-with" || !isString(parts[1], &field) || !isString(parts[2], &value) {
		return badCondition()
	}
	name, ok := strings.CutPrefix(field, "$")
	if !ok || name == "" {
		return badCondition()
	}
	p.conditions = append(p.conditions, condition{field: strings.ToLower(name), prefix: operator == "starts-with", value: value})
	return nil
}

// limit adds a content-length-range; several are intersected.
func (p *Policy) limit(low, high json.RawMessage) error {
	smallest, ok1 := number(low)
	largest, ok2 := number(high)
	if !ok1 || !ok2 || smallest > largest {
		return badCondition()
	}
	p.MinSize, p.MaxSize = max(p.MinSize, smallest), min(p.MaxSize, largest)
	return nil
}

// number reads a whole number, which some clients write as a string.
func number(text json.RawMessage) (int64, bool) {
	digits := string(text)
	isString(text, &digits)
	n, err := strconv.ParseUint(digits, 10, 63)
	return int64(n), err == nil
}

func isString(text json.RawMessage, s *string) bool {
	return bytes.HasPrefix(text, []byte(`"`)) && json.Unmarshal(text, s) == nil
}

func badCondition() error {
	return refuse(InvalidPolicy, `a condition of the policy must be {"field": "value"}, ["eq", "$field", "value"], ["starts-with", "$field", "value"] or ["content-length-range", min, max]`)
}
