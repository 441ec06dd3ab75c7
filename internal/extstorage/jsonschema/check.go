package jsonschema

import (
	"errors"
	"strconv"
	"sync"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// Check tells whether a schema document may be registered: nil, or an *Error
// with the pointer into the document. It costs some 30 ms at most, whatever
// the document is.
func Check(text []byte) error {
	_, err := parse(text)
	return err
}

// parse checks a document and knows its subschemas. Each step relies on those
// before it: they bound what it works on.
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

// metaschema is what Draft 2020-12 says a schema is. The library has it inside.
var metaschema = sync.OnceValue(func() *santhosh.Schema {
	c := santhosh.NewCompiler()
	c.UseLoader(refusing{})
	return c.MustCompile(santhosh.Draft2020.String())
})

// refusing is the loader of everything: nothing is fetched, no file is read.
// References out of a document have been refused before; this is the lock
// behind the door.
type refusing struct{}

func (refusing) Load(string) (any, error) {
	return nil, errors.New("nothing outside of a schema document is loaded")
}
