package jsonschema_test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"holdfast/internal/jsonschema"
)

// TestSize compares measured schema sizes with the growth of the heap. A measured size may be up to 5% too small or 25%
// too large.
func TestSize(t *testing.T) { //nolint:paralleltest // the garbage of others would be counted
	documents := map[string]string{}
	maps.Copy(documents, large())
	for i := range 40 {
		if document := string(text(schemas(4).Example(i))); jsonschema.Check([]byte(document)) == nil {
			documents[fmt.Sprint("random ", i)] = document
		}
	}
	for name, document := range documents {
		if _, err := jsonschema.Compile([]byte(document)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		measured, grown := 0, 0
		fits := func() bool {
			return float64(measured) >= 0.95*float64(grown)-1000 && float64(measured) <= 1.25*float64(grown)+1000
		}
		for range 3 { // other code may free memory meanwhile
			before := heap()
			s, err := jsonschema.Compile([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			grown = heap() - before
			measured, _ = s.Measured()
			measured -= s.Matching()
			runtime.KeepAlive(s)
			if fits() {
				break
			}
		}
		if !fits() {
			t.Errorf("%s: measured %d bytes, the heap has grown by %d", name, measured, grown)
		}
	}
}

func TestTextIsNotKept(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`{"type":"string"}`, `{"enum":["a",1]}`, `{"properties":{"a":{"pattern":"^a"}}}`} {
		want, _ := compile(t, document).Measured()
		s, err := jsonschema.Compile(append(make([]byte, 0, 2*jsonschema.MaxCompiled), document...))
		if err != nil {
			t.Errorf("%s: %v", document, err)
			continue
		}
		if got, _ := s.Measured(); got > want+100 {
			t.Errorf("%s: %d bytes in a large buffer, %d in a small one", document, got, want)
		}
	}
}

func heap() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// repeated writes a text n times with its number for %d, separated by commas.
func repeated(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "%d", fmt.Sprint(i))
	}
	return strings.Join(parts, ",")
}

// large returns documents that are each large in one respect.
func large() map[string]string {
	deep := strings.Repeat(`{"properties":{"a":`, 12) + `{"properties":{` + repeated(1900, `"m%d":{}`) + `}}` + strings.Repeat(`}}`, 12)
	return map[string]string{
		"members":      `{"properties":{` + repeated(1900, `"member%d":{"type":"string"}`) + `}}`,
		"deep":         deep,
		"alternatives": `{"anyOf":[` + repeated(490, `{"properties":{"a":{"type":"string"},"b":{}}}`) + `]}`,
		"enum":         `{"enum":[` + repeated(10_000, `%d`) + `]}`,
		"texts":        `{"enum":[` + repeated(8_000, `"%d"`) + `]}`,
		"required":     `{"required":[` + repeated(8_000, `"%d"`) + `]}`,
		"defaults":     `{"default":[` + repeated(20_000, `{}`) + `]}`,
		"title":        `{"title":"` + strings.Repeat("x", 60_000) + `"}`,
		"letters":      `{"pattern":"^[a-z\\p{L}]{600}x0"}`,
		"patterns":     `{"patternProperties":{` + repeated(60, `"^[a-z\\p{Lu}]{1,9}x%d$":{}`) + `}}`,
		"repetitions":  `{"allOf":[` + repeated(5, `{"pattern":"^[a-z]{980}x%d"}`) + `]}`,
		"words":        `{"pattern":"^(` + strings.ReplaceAll(repeated(900, `z%da`), ",", "|") + `)$"}`,
		"cases":        `{"pattern":"(?i)^(` + strings.ReplaceAll(repeated(900, `z%da`), ",", "|") + `)$"}`,
		"scripts":      `{"pattern":"^(\\p{Lu}a|\\p{Ll}b|\\p{Lo}c|\\p{N}d|\\p{P}e|\\p{S}f|\\p{M}g)*$"}`,
		"dynamic":      `{"$dynamicAnchor":"x","properties":{` + repeated(400, `"m%d":{"$dynamicRef":"#x"}`) + `}}`,
		"references":   `{"$defs":{"a":{"type":"string"}},"properties":{` + repeated(900, `"m%d":{"$ref":"#/$defs/a"}`) + `}}`,
	}
}
