package bearer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// maxDepth is how deep the JSON of a token may be nested.
const maxDepth = 16

// object reads a JSON object whose names, and those of the objects in it, stand
// there once: of two readers one takes the first and the other the last.
func object(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, malformed("not JSON in UTF-8")
	}
	if err := once(json.NewDecoder(bytes.NewReader(raw)), maxDepth); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, malformed("not a JSON object")
	}
	return members, nil
}

// once reads a value, which is valid JSON, and refuses repeated names.
func once(d *json.Decoder, depth int) error {
	if depth < 0 {
		return malformed("nested too deep")
	}
	start, err := d.Token()
	if err != nil {
		return malformed("not JSON")
	}
	if start != json.Delim('{') && start != json.Delim('[') {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if start == json.Delim('{') {
			token, err := d.Token()
			name, ok := token.(string)
			if err != nil || !ok || seen[name] {
				return malformed("a name stands twice")
			}
			seen[name] = true
		}
		if err := once(d, depth-1); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end
	return err
}

// text is a member that is a string; "" when it is not there.
func text(members map[string]json.RawMessage, name string) (string, error) {
	raw, ok := members[name]
	if !ok {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", malformed(name + " is not a string")
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
		return nil, malformed(name + " is not a list of strings")
	}
	list := make([]string, 0, len(all))
	for _, s := range all {
		if s == nil {
			return nil, malformed(name + " is not a list of strings")
		}
		list = append(list, *s)
	}
	return list, nil
}

// maxMoment keeps the conversion from float exact, and far from overflow.
const maxMoment = 1 << 53

// moment is a member that is a number of seconds since 1970; nil when it is not
// there. What is less than a second is cut off.
func moment(members map[string]json.RawMessage, name string) (*jwt.NumericDate, error) {
	raw, ok := members[name]
	if !ok {
		return nil, nil
	}
	var seconds *float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds == nil || *seconds < 0 || *seconds > maxMoment {
		return nil, malformed(name + " is not a moment")
	}
	return &jwt.NumericDate{Time: time.Unix(int64(*seconds), 0)}, nil
}

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }
