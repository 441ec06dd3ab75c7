package ext_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"holdfast/client/ext"
)

type refusing struct{ t *testing.T }

func (r refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	r.t.Errorf("%s %s was sent", q.Method, q.URL)
	return nil, errUnreachable
}

// TestInvalidUTF8 checks that nothing is sent if JSON would change a text.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	const wrong = "a\xff"
	c := must[*ext.Client](t)(ext.New("http://server.example", func(context.Context) (string, error) { return "token", nil }))
	c.HTTP = &http.Client{Transport: refusing{t}}
	install := c.Install(uuid())
	r, put := install.Records("settings"), ext.Put{Value: map[string]any{"titles": []string{"a", wrong}}}
	for name, err := range map[string]error{
		"Put":            second(r.Put(t.Context(), "k", put)),
		"Put metadata":   second(r.Put(t.Context(), "k", ext.Put{Value: 1, Metadata: map[string]string{"a": wrong}})),
		"Merge":          second(r.Merge(t.Context(), "k", map[string]string{wrong: "a"})),
		"Item":           second(r.Item("k", put)),
		"Batch":          second(install.Batch(t.Context(), r.PutOp("k", put))),
		"Batch key":      second(install.Batch(t.Context(), r.PutOp(wrong, ext.Put{Value: 1}))),
		"RegisterSchema": second(r.RegisterSchema(t.Context(), map[string]string{"title": wrong})),
		"CheckSchema":    second(r.CheckSchema(t.Context(), map[string]string{"title": wrong})),
	} {
		if err == nil || !strings.Contains(err.Error(), "not valid UTF-8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
