package bearer

import (
	"encoding/json"
	"fmt"
	"time"

	"holdfast/internal/canonjson"
)

// object reads the claims, a JSON object. It must have a canonical form, so that
// all readers read the same: names stand there once, of two readers one takes the
// first and the other the last.
func object(raw []byte) (map[string]json.RawMessage, error) {
	if _, err := canonjson.Parse(raw, maxToken); err != nil {
		return nil, malformed("the claims are not valid JSON: the text " + err.Error())
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, malformed("the claims must be a JSON object")
	}
	return members, nil
}

// text is a member that is a string; "" when it is not there.
func text(members map[string]json.RawMessage, name string) (string, error) {
	raw, ok := members[name]
	if !ok {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", malformed(name + " must be a string")
	}
	return *s, nil
}

// texts is a member that is a string or a list of strings.
func texts(members map[string]json.RawMessage, name string) ([]string, error) {
	if raw, ok := members[name]; !ok || raw[0] != '[' {
		one, err := text(members, name)
		if one == "" || err != nil {
			return nil, err
		}
		return []string{one}, nil
	}
	var all []*string
	if err := json.Unmarshal(members[name], &all); err != nil {
		return nil, malformed(name + " must be a string or an array of strings")
	}
	list := make([]string, 0, len(all))
	for _, s := range all {
		if s == nil {
			return nil, malformed(name + " must be a string or an array of strings")
		}
		list = append(list, *s)
	}
	return list, nil
}

// maxMoment keeps the conversion from float exact, and far from overflow.
const maxMoment = 1 << 53

// moment is a member that is a number of seconds since 1970, if it is there. What
// is less than a second is cut off.
func moment(members map[string]json.RawMessage, name string) (at time.Time, ok bool, err error) {
	raw, ok := members[name]
	if !ok {
		return time.Time{}, false, nil
	}
	var seconds *float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds == nil || *seconds < 0 || *seconds > maxMoment {
		return time.Time{}, false, malformed(name + " must be a number of seconds since 1970")
	}
	return time.Unix(int64(*seconds), 0), true, nil
}

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }
