package guest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// MaxAttributes is the maximum size of a session's attributes, in bytes of canonical JSON.
const MaxAttributes = 16 << 10

// Attributes is a JSON object that a front end keeps in a session. The zero value is empty.
type Attributes struct {
	Value   canonjson.Value // "" if empty
	Version string          // hash of the value; "" if empty
}

// NewAttributes computes the version.
func NewAttributes(value canonjson.Value) Attributes {
	if value == "" || value == noAttributes {
		return Attributes{}
	}
	sum := sha256.Sum256([]byte(value))
	return Attributes{value, base64.RawURLEncoding.EncodeToString(sum[:12])}
}

// noAttributes is the value of empty attributes for clients.
const noAttributes canonjson.Value = "{}"

// Object returns the value as a JSON object, {} if empty.
func (a *Attributes) Object() canonjson.Value {
	if a.Value == "" {
		return noAttributes
	}
	return a.Value
}

// noVersion is the entity tag of empty attributes.
const noVersion = "0"

// Tag returns the entity tag without quotes.
func (a *Attributes) Tag() string {
	if a.Version == "" {
		return noVersion
	}
	return a.Version
}

// AttributesPatch is a merge patch (RFC 7396) for session attributes.
type AttributesPatch struct {
	Patch canonjson.Value
	Tags  []string // required current tags; nil: any
}

// ChangedAttributes is the result of a patch.
type ChangedAttributes struct {
	Attributes
	Members []string // names whose value changed, sorted
}

// Attribute errors.
var (
	ErrAttributesChanged = errcode.New(errcode.Conflict, "the attributes' version differs from If-Match: read them again")
	ErrAttributesPatch   = errcode.Wrap(errcode.Invalid, "expected an object", FieldErrors{{Code: CodeInvalid, Detail: "expected an object"}})
)

// AttributesFullError means that the attributes would exceed the profile's limit.
type AttributesFullError struct{ Size, Most int }

func (e *AttributesFullError) Error() string {
	return fmt.Sprintf("the attributes would be %d bytes: the limit is %d bytes", e.Size, e.Most)
}

// patchTries limits how often a patch is applied again because the attributes changed.
const patchTries = 10

// Attributes returns a session's attributes, or an error if they are unavailable, which does not mean empty. The
// value is not read if its version is known, which may be "".
func (s *Service) Attributes(ctx context.Context, id ID, known string) (Attributes, error) {
	session, err := s.opts.Hot.Session(ctx, id, Change{ReadAttributes: true, KnownVersion: known})
	return session.Attributes, err
}

// PatchAttributes applies a patch to the current attributes. It returns ErrAttributesPatch, ErrAttributesChanged,
// *AttributesFullError, FieldErrors for a value that the profile does not allow, or ErrInFlight if others keep changing
// them.
func (s *Service) PatchAttributes(ctx context.Context, id ID, p AttributesPatch) (c ChangedAttributes, err error) {
	if p.Patch == "" || p.Patch[0] != '{' {
		return c, ErrAttributesPatch
	}
	for range patchTries {
		before, err := s.Attributes(ctx, id, "")
		if err != nil {
			return c, err
		}
		if p.Tags != nil && !slices.Contains(p.Tags, before.Tag()) {
			return c, ErrAttributesChanged
		}
		next, err := s.patched(ctx, before, p.Patch)
		if err != nil {
			return c, err
		}
		if next.Version == before.Version {
			return ChangedAttributes{Attributes: next}, nil
		}
		stored, err := s.opts.Hot.PutAttributes(ctx, id, before.Version, next)
		if err != nil {
			return c, err
		}
		if stored {
			members, err := changedMembers(before.Object(), next.Object())
			return ChangedAttributes{next, members}, err
		}
	}
	return c, ErrInFlight
}

// patched returns the attributes after the patch, checked by the profile. Merge stops at twice the limit, so a patch
// that shrinks the value may be large.
func (s *Service) patched(ctx context.Context, before Attributes, patch canonjson.Value) (Attributes, error) {
	maxBytes := s.opts.Profile.MaxAttributes()
	value, err := before.Object().Merge(patch, 2*MaxAttributes)
	if err != nil {
		return Attributes{}, err
	}
	if len(value) > maxBytes {
		return Attributes{}, &AttributesFullError{len(value), maxBytes}
	}
	return NewAttributes(value), s.checkAttributes(ctx, value)
}

// checkAttributes validates by the profile's schema, if it has a schema.
func (s *Service) checkAttributes(ctx context.Context, value canonjson.Value) error {
	if len(s.opts.Profile.site().AttributesSchema) == 0 {
		return nil
	}
	schema, err := s.attributes()
	if err != nil {
		return err
	}
	return schema.validate(ctx, value)
}

// changedMembers compares two objects by member.
func changedMembers(before, after canonjson.Value) (names []string, err error) {
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal([]byte(before), &was); err != nil {
		return nil, errcode.Wrap(errcode.Internal, "decode attributes", err)
	}
	if err := json.Unmarshal([]byte(after), &is); err != nil {
		return nil, errcode.Wrap(errcode.Internal, "decode attributes", err)
	}
	for name, value := range is {
		if old, found := was[name]; !found || string(old) != string(value) {
			names = append(names, name)
		}
		delete(was, name)
	}
	return slices.Sorted(slices.Values(append(names, slices.Collect(maps.Keys(was))...))), nil
}
