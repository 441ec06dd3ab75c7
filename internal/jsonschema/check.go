package jsonschema

import (
	"errors"
	"strconv"
	"sync"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// Check returns an *Error if a schema document may not be registered. It takes at most about 30 ms.
func Check(text []byte) error {
	_, err := parse(text)
	return err
}

// parse parses and checks a document. Each step relies on the limits checked before.
func parse(text []byte) (*document, error) {
	if len(text) > MaxBytes {
		return nil, pointer(nil).refuse("is too large: the limit is " + strconv.Itoa(MaxBytes) + " bytes")
	}
	root, err := decode(text)
	if err != nil {
		return nil, err
	}
	d := &document{
		byPointer: map[string]*node{}, resources: map[string]*resource{}, dynamic: map[string][]*node{},
		expressions: map[string]*pattern{},
	}
	if _, err := d.walk(root, nil, nil); err != nil {
		return nil, err
	}
	if err := metaschema().Validate(root); err != nil {
		return nil, explain(err)
	}
	for _, step := range []func() error{d.checkCounts, d.compilePatterns, d.resolve, d.fanout} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// metaschema validates schemas; it is compiled at the first use.
var metaschema = sync.OnceValue(func() *santhosh.Schema {
	c := santhosh.NewCompiler()
	c.UseLoader(refusing{})
	return c.MustCompile(santhosh.Draft2020.String())
})

// refusing rejects all loading, as a second line of defense: Check rejected external references.
type refusing struct{}

func (refusing) Load(string) (any, error) {
	return nil, errors.New("external documents are not loaded")
}
