package broker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is an event with CloudEvents 1.0 attributes.
type Event struct {
	ID          string            // unique for Source
	Source      string            // URI reference
	Type        string            // e.g. "com.example.put.v1"
	Subject     string            // the thing that the event is about; may be ""
	Time        time.Time         // of the change
	ContentType string            // of Data; "" means JSON
	Extensions  map[string]string // names are lower-case letters and digits
	Data        []byte
}

// Extension names.
const (
	PartitionKey = "partitionkey"
	Sequence     = "sequence"    // ascending per key
	TraceParent  = "traceparent" // W3C Trace Context
	Retention    = "retentionclass"
)

const (
	specVersion = "1.0"
	jsonType    = "application/json"
)

func (e *Event) contentType() string {
	if e.ContentType == "" {
		return jsonType
	}
	return e.ContentType
}

// isJSON reports whether Data is JSON by its content type.
func (e *Event) isJSON() bool {
	media, _, _ := strings.Cut(e.contentType(), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == jsonType || strings.HasSuffix(media, "+json")
}

// attributes returns all attributes but the content type, as texts.
func (e *Event) attributes() map[string]string {
	all := make(map[string]string, len(e.Extensions)+6)
	maps.Copy(all, e.Extensions)
	all["specversion"], all["id"], all["source"], all["type"] = specVersion, e.ID, e.Source, e.Type
	if e.Subject != "" {
		all["subject"] = e.Subject
	}
	if !e.Time.IsZero() {
		all["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	return all
}

// set parses an attribute.
func (e *Event) set(name, value string) (err error) {
	switch name {
	case "specversion":
		if value != specVersion {
			err = errors.New("specversion: expected " + specVersion)
		}
	case "id":
		e.ID = value
	case "source":
		e.Source = value
	case "type":
		e.Type = value
	case "subject":
		e.Subject = value
	case "datacontenttype":
		e.ContentType = value
	case "time":
		if e.Time, err = time.Parse(time.RFC3339Nano, value); err != nil {
			err = errors.New("time: expected a time as in RFC 3339")
		}
	default:
		if !isExtension(name) {
			return errors.New("attributes: expected names of lower-case letters and digits")
		}
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[name] = value
	}
	return err
}

// isExtension reports whether a name is allowed for an extension (CloudEvents 1.0, naming conventions).
func isExtension(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64 && name != "data"
}

// check returns an error if a required attribute is missing.
func (e *Event) check() error {
	if e.ID == "" || e.Source == "" || e.Type == "" {
		return errors.New("expected a CloudEvents event with id, source and type")
	}
	return nil
}

const prefix = "ce-"

// Headers returns the headers of the binary mode, to send with Data as the body. Values are not escaped.
func (e *Event) Headers() map[string]string {
	all := map[string]string{"content-type": e.contentType()}
	for name, value := range e.attributes() {
		all[prefix+name] = value
	}
	return all
}

// FromHeaders parses a binary mode event. It ignores other headers; header names are case-insensitive.
func FromHeaders(headers map[string]string, data []byte) (e Event, err error) {
	version := false
	for name, value := range headers {
		name = strings.ToLower(name)
		if name == "content-type" {
			e.ContentType = value
		} else if attribute, ok := strings.CutPrefix(name, prefix); ok {
			version = version || attribute == "specversion"
			if err := e.set(attribute, value); err != nil {
				return Event{}, err
			}
		}
	}
	e.Data = data
	if !version {
		return Event{}, errors.New("ce-specversion: expected the header")
	}
	return e, e.check()
}

// MarshalJSON writes the JSON event format.
func (e *Event) MarshalJSON() ([]byte, error) {
	all := map[string]any{"datacontenttype": e.contentType()}
	for name, value := range e.attributes() {
		all[name] = value
	}
	switch {
	case len(e.Data) == 0:
	case e.isJSON() && json.Valid(e.Data):
		all["data"] = json.RawMessage(e.Data)
	case !e.isJSON() && utf8.Valid(e.Data):
		all["data"] = string(e.Data)
	default: // including content types that only claim to be JSON
		all["data_base64"] = e.Data
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads the JSON event format. It refuses an event without the required attributes.
func (e *Event) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return errors.New("expected a CloudEvents event in the JSON format")
	}
	*e = Event{}
	if _, ok := all["specversion"]; !ok {
		return errors.New("specversion: expected the attribute")
	}
	data, hasData := all["data"]
	encoded, hasEncoded := all["data_base64"]
	delete(all, "data")
	delete(all, "data_base64")
	for name, raw := range all {
		value, err := attribute(raw)
		if err == nil && value != nil {
			err = e.set(name, *value)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case hasData && hasEncoded:
		return errors.New("data: expected data or data_base64, not both")
	case hasEncoded:
		var text string
		if json.Unmarshal(encoded, &text) != nil {
			return errors.New("data_base64: expected a string")
		}
		var err error
		if e.Data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return errors.New("data_base64: expected Base64")
		}
	case hasData && e.isJSON():
		e.Data = data
	case hasData:
		var text string
		if json.Unmarshal(data, &text) != nil {
			return errors.New("data: expected a string, because datacontenttype is not JSON")
		}
		e.Data = []byte(text)
	}
	return e.check()
}

// attribute converts a JSON value to text; nil means null.
func attribute(raw json.RawMessage) (*string, error) {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return &v, nil
	case bool:
		text := strconv.FormatBool(v)
		return &text, nil
	case float64:
		if v == float64(int32(v)) {
			text := strconv.Itoa(int(v))
			return &text, nil
		}
	}
	return nil, errors.New("attributes: expected strings, booleans or integers")
}

// Escape encodes a value for ASCII headers: HTTP and NATS.
func Escape(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Unescape is the inverse of Escape. Unencoded text is unchanged.
func Unescape(value string) string {
	if !strings.Contains(value, "%") {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		var c byte
		if n, err := fmt.Sscanf(value[i:min(i+3, len(value))], "%%%02x", &c); n == 1 && err == nil && i+2 < len(value) {
			b.WriteByte(c)
			i += 2
		} else {
			b.WriteByte(value[i])
		}
	}
	return b.String()
}

// ForeignType is the event type for messages that are not events.
const ForeignType = "holdfast.foreign.v1"

// Foreign wraps a message that is not an event, so that receivers can keep it for inspection.
func Foreign(source, id string, at time.Time, data []byte) Event {
	return Event{ID: id, Source: source, Type: ForeignType, Time: at, ContentType: "application/octet-stream", Data: data}
}
