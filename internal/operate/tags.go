package operate

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

var (
	inputTags  = []string{"flag", "subject", "doc", "default", "value", "arg", "title", "schema", "example", "enum", "least", "local", "remote", "secret", "private", "names", "lines"}
	outputTags = []string{
		"json", "title", "subject", "names", "cursor", "text", "table", "empty", "secret", "qr", "sort", "with", "zero", "of", "aside", "main", "local",
		"doc", "example", "enum", "least",
	}
)

// checkTags panics on tags that are not in known, because a misspelled tag would have no effect. owner is the struct,
// for the message.
func checkTags(f *reflect.StructField, owner reflect.Type, known []string) {
	for rest := strings.TrimSpace(string(f.Tag)); rest != ""; {
		key, value, ok := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(value)
		if !ok || err != nil {
			panic(fmt.Sprintf(`field %s of %s: expected tags such as doc:"text", separated by spaces`, f.Name, owner))
		}
		if !slices.Contains(known, key) {
			panic(fmt.Sprintf("field %s of %s: unknown tag %q: expected %s", f.Name, owner, key, strings.Join(known, ", ")))
		}
		rest = strings.TrimSpace(value[len(quoted):])
	}
}
