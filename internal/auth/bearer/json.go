package bearer

import (
	"encoding/json"
	"fmt"
	"time"

	"holdfast/internal/canonjson"
)

// parseClaims rejects repeated names, because some parsers take the first value and some the last.
func parseClaims(raw []byte) (map[string]json.RawMessage, error) {
	if _, err := canonjson.Parse(raw, maxToken); err != nil {
		return nil, Malformed("the claims are not valid JSON: the text " + err.Error())
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, Malformed("the claims must be a JSON object")
	}
	return members, nil
}

// stringClaim returns a claim, or "" if it is absent.
func stringClaim(members map[string]json.RawMessage, name string) (string, error) {
	raw, ok := members[name]
	if !ok {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", Malformed(name + " must be a string")
	}
	return *s, nil
}

// stringsClaim returns a claim that may be a string or an array.
func stringsClaim(members map[string]json.RawMessage, name string) ([]string, error) {
	if raw, ok := members[name]; !ok || raw[0] != '[' {
		claim, err := stringClaim(members, name)
		if claim == "" || err != nil {
			return nil, err
		}
		return []string{claim}, nil
	}
	var all []*string
	if err := json.Unmarshal(members[name], &all); err != nil {
		return nil, Malformed(name + " must be a string or an array of strings")
	}
	list := make([]string, 0, len(all))
	for _, s := range all {
		if s == nil {
			return nil, Malformed(name + " must be a string or an array of strings")
		}
		list = append(list, *s)
	}
	return list, nil
}

// maxSeconds is small enough that a float64 is exact and far from overflow.
const maxSeconds = 1 << 53

// timeClaim truncates to whole seconds. ok is false if the claim is missing.
func timeClaim(members map[string]json.RawMessage, name string) (at time.Time, ok bool, err error) {
	raw, ok := members[name]
	if !ok {
		return time.Time{}, false, nil
	}
	var seconds *float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds == nil || *seconds < 0 || *seconds > maxSeconds {
		return time.Time{}, false, Malformed(name + " must be a number of seconds since 1970")
	}
	return time.Unix(int64(*seconds), 0), true, nil
}

// Malformed returns ErrMalformed with the reason, which must not quote the token.
func Malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }
