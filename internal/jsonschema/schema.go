package jsonschema

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"runtime"
	"strconv"
	"sync"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// maxExplain limits the steps to explain a rejection: the library keeps every alternative's failures in memory.
const maxExplain = MaxSteps / 20

// Schema is a compiled schema, safe for concurrent use.
type Schema struct {
	document *document
	asserts  map[*node]*assertion
	keywords any // the document for the library
	patterns map[string]*regexp.Regexp

	fixed int            // bytes without instances
	each  int            // bytes per instance
	idle  chan *instance // the capacity is the maximum number of instances

	mu   sync.Mutex
	made int                  // instances
	grow func(bytes int) bool // asks the cache for an instance's memory; nil: always allowed
}

// instance runs one validation at a time, because the library's callbacks cannot identify the validation otherwise.
type instance struct {
	steps    int
	opposite *santhosh.Schema // the negated document
	whole    *santhosh.Schema // the document, with reasons
}

// Compile returns Check's error, or an *Error if the schema takes more than MaxCompiled bytes.
func Compile(text []byte) (*Schema, error) {
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	s := &Schema{document: d, asserts: d.asserts(), patterns: map[string]*regexp.Regexp{}, made: 1}
	s.keywords = s.forLibrary(d.nodes[0])
	longest := 0
	for expression, p := range d.expressions {
		if s.patterns[expression], err = p.compile(expression); err != nil {
			return nil, errcode.Wrap(errcode.Invalid, "the schema cannot be compiled", err)
		}
		longest = max(longest, p.instructions)
	}
	m := newMeter()
	m.add(s)
	s.fixed = m.bytes
	first, err := s.instance()
	if err != nil {
		return nil, err
	}
	m.add(first)
	s.each = m.bytes - s.fixed + matching(longest)
	if s.fixed+s.each > MaxCompiled {
		return nil, pointer(nil).refuse("takes more than " + strconv.Itoa(MaxCompiled>>20) + " MiB of memory when compiled")
	}
	s.idle = make(chan *instance, min(runtime.GOMAXPROCS(0), (MaxCompiled-s.fixed)/s.each))
	s.idle <- first
	return s, nil
}

// matching returns the memory that regexp needs to run a program with so many instructions.
func matching(instructions int) int {
	if instructions == 0 {
		return 0
	}
	for _, size := range []int{128, 512, 2048} {
		if instructions+2 <= size {
			return 40 * size
		}
	}
	return 40 << 14
}

// bytes returns the memory that the schema uses.
func (s *Schema) bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fixed + s.made*s.each
}

// Validate returns nil or an *SchemaError with pointers into the value, deterministically. While all instances are in
// use, it waits until ctx ends.
func (s *Schema) Validate(ctx context.Context, value canonjson.Value) error {
	v, err := decodeValue(value)
	if err != nil {
		return err
	}
	return s.hold(ctx, v)
}

var errTooManySteps = &SchemaError{Failures: []SchemaFailure{{Reason: "takes too many steps to validate: simplify the value or the schema"}}}

// hold validates a decoded value. It first uses the negated document, for which the library collects no reasons.
func (s *Schema) hold(ctx context.Context, v any) error {
	i, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer func() { s.idle <- i }()
	i.steps = MaxSteps
	err = i.opposite.Validate(v)
	switch {
	case i.steps < 0:
		return errTooManySteps
	case err != nil:
		return nil // the negated schema fails
	}
	i.steps = maxExplain
	err = i.whole.Validate(v)
	if err == nil || i.steps < 0 {
		return refused(s.search(i, v))
	}
	return refused(s.document.failures(err))
}

func refused(failures []failure) error {
	e := &SchemaError{Failures: make([]SchemaFailure, len(failures))}
	for i := range failures {
		f, at := &failures[i], failures[i].at.String()
		e.Failures[i] = SchemaFailure{Pointer: at, Location: at, Missing: f.missing, Keyword: f.keyword, Bound: f.bound(), Reason: f.reason}
	}
	return e
}

// take returns an unused instance. Validation is CPU-bound, so there are as many instances as processors.
func (s *Schema) take(ctx context.Context) (*instance, error) {
	select {
	case i := <-s.idle:
		return i, nil
	default:
	}
	if s.mayMake() {
		return s.instance()
	}
	select {
	case i := <-s.idle:
		return i, nil
	case <-ctx.Done():
		return nil, errcode.Wrap(errcode.Unavailable, "too many concurrent validations with this schema: retry later", context.Cause(ctx))
	}
}

// mayMake reports whether another instance may be made.
func (s *Schema) mayMake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == cap(s.idle) || s.grow != nil && !s.grow(s.each) {
		return false
	}
	s.made++
	return true
}

// instance compiles the document for the library. The library calls a subschema's format, which counts the steps,
// before everything below the subschema.
//
// The verdict comes from {"not": document}: under `not` the library stops at the first failure and builds no reasons.
func (s *Schema) instance() (*instance, error) {
	i := &instance{}
	c := santhosh.NewCompiler()
	c.DefaultDraft(santhosh.Draft2020)
	c.UseLoader(refusing{})
	c.AssertFormat()
	c.UseRegexpEngine(s.pattern)
	for n, a := range s.asserts {
		c.RegisterFormat(&santhosh.Format{Name: formatOf(n), Validate: func(v any) error {
			if i.steps >= 0 {
				i.steps -= a.cost(v)
			}
			if i.steps < 0 {
				return errNoSteps
			}
			return a.check(v)
		}})
	}
	const opposite = "holdfast://schema/opposite"
	err := errors.Join(
		c.AddResource(baseURL, s.keywords),
		c.AddResource(opposite, map[string]any{"not": map[string]any{"$ref": baseURL}}),
	)
	if err == nil {
		i.whole, err = c.Compile(baseURL)
	}
	if err == nil {
		i.opposite, err = c.Compile(opposite)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "the schema cannot be compiled", err)
	}
	return i, nil
}

// pattern returns an expression that compilePatterns checked.
func (s *Schema) pattern(expression string) (santhosh.Regexp, error) {
	if re := s.patterns[expression]; re != nil {
		return re, nil
	}
	return nil, errors.New("the pattern is not in the document")
}

// formatOf names the format that runs a subschema's assertion.
func formatOf(n *node) string { return "holdfast " + n.at.String() }

// forLibrary returns n's schema for the library, with formats instead of keywords checked by assertions. The schema's
// own `format` is an annotation.
func (s *Schema) forLibrary(n *node) any {
	if len(n.keywords) == 0 {
		return n.keywords == nil && n.flat || n.keywords != nil
	}
	keywords := make(map[string]any, len(n.keywords)+1)
	maps.Copy(keywords, n.keywords)
	for _, keyword := range []string{"type", "enum", "const"} {
		delete(keywords, keyword)
	}
	if s.asserts[n].alternative {
		delete(keywords, "required")
	}
	keywords["format"] = formatOf(n)
	for _, p := range schemaKeywords {
		switch value := keywords[p.keyword].(type) {
		case []any:
			schemas := make([]any, len(value))
			for i := range value {
				schemas[i] = s.below(n, value[i], p.keyword, strconv.Itoa(i))
			}
			keywords[p.keyword] = schemas
		case map[string]any:
			if p.form == one {
				keywords[p.keyword] = s.below(n, value, p.keyword)
				break
			}
			schemas := make(map[string]any, len(value))
			for name := range value {
				schemas[name] = s.below(n, value[name], p.keyword, name)
			}
			keywords[p.keyword] = schemas
		}
	}
	return keywords
}

func (s *Schema) below(n *node, value any, tokens ...string) any {
	if child := s.document.child(n, tokens...); child != nil {
		return s.forLibrary(child)
	}
	return value
}
