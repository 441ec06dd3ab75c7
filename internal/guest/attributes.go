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

// MaxAttributes is the size of the largest attributes in bytes, as canonical JSON.
const MaxAttributes = 16 << 10

// Attributes are what a front end keeps with a session: a JSON object. The zero value has no members.
type Attributes struct {
	Value   canonjson.Value // "": no members
	Version string          // follows from Value; "" with it
}

// NewAttributes returns attributes with their version.
func NewAttributes(value canonjson.Value) Attributes {
	if value == "" || value == noAttributes {
		return Attributes{}
	}
	sum := sha256.Sum256([]byte(value))
	return Attributes{value, base64.RawURLEncoding.EncodeToString(sum[:12])}
}

const noAttributes canonjson.Value = "{}"

// Object returns the attributes as a JSON object.
func (a *Attributes) Object() canonjson.Value {
	if a.Value == "" {
		return noAttributes
	}
	return a.Value
}

// noVersion is the tag of attributes without members.
const noVersion = "0"

// Tag returns the version as clients see it, which is never empty.
func (a *Attributes) Tag() string {
	if a.Version == "" {
		return noVersion
	}
	return a.Version
}

// AttributesPatch is a merge patch (RFC 7396) of the attributes of a session.
type AttributesPatch struct {
	Patch canonjson.Value
	Tags  []string // of the attributes that it is for; nil: of any
}

// ChangedAttributes are attributes after a patch.
type ChangedAttributes struct {
	Attributes
	Members []string // that have another value than before, sorted
}

// Errors of attributes.
var (
	ErrAttributesChanged = errcode.New(errcode.Conflict, "the attributes have another version than If-Match: read them again")
	ErrAttributesPatch   = errcode.Wrap(errcode.Invalid, "expected an object", FieldErrors{{Code: CodeInvalid, Detail: "expected an object"}})
)

// AttributesFullError is returned if the attributes would be larger than the profile allows.
type AttributesFullError struct{ Size, Most int }

func (e *AttributesFullError) Error() string {
	return fmt.Sprintf("the attributes would have %d bytes, and may have at most %d", e.Size, e.Most)
}

// patchTries is how often a patch begins again because another one was faster.
const patchTries = 10

// Attributes returns the attributes of a session. Attributes that are unavailable are an error: a front end
// must not take them for empty. If they have the version known, which may be "", the value is not read.
func (s *Service) Attributes(ctx context.Context, id ID, known string) (Attributes, error) {
	session, err := s.opts.Hot.Session(ctx, id, Change{ReadAttributes: true, KnownVersion: known})
	return session.Attributes, err
}

// PatchAttributes changes the attributes of a session. If two patches come at once, the second one
// applies to the result of the first.
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

// patched returns attributes with a patch applied, if the profile allows the result.
func (s *Service) patched(ctx context.Context, before Attributes, patch canonjson.Value) (Attributes, error) {
	most := s.opts.Profile.MaxAttributes()
	value, err := before.Object().Merge(patch, 2*MaxAttributes)
	if err != nil {
		return Attributes{}, err
	}
	if len(value) > most {
		return Attributes{}, &AttributesFullError{len(value), most}
	}
	return NewAttributes(value), s.checkAttributes(ctx, value)
}

// checkAttributes returns FieldErrors with errcode.Invalid unless attributes match the schema of the profile.
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

// changedMembers returns the names of the members that differ between two objects.
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
