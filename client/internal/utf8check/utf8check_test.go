package utf8check

import (
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"
)

const wrong = "a\xff"

type inner struct {
	Text string `json:"text"`
	Left string `json:"-"`
}

type outer struct {
	inner
	List  []any
	Bytes []byte
	hides string
}

func TestCheck(t *testing.T) {
	t.Parallel()
	loop := map[string]any{}
	loop["again"] = loop
	for i, v := range []any{
		nil, "å\ufffd", 1, json.Number("1"), json.RawMessage(`"\ufffd"`), map[string]any{"a": []string{"b"}}, &outer{Bytes: []byte(wrong), hides: wrong}, inner{Left: wrong},
		time.Time{}, big.NewInt(1), (*outer)(nil), loop, func() {},
	} {
		if err := Check(v); err != nil {
			t.Errorf("value %d: %v", i, err)
		}
	}
	text := wrong
	for _, c := range []struct {
		v    any
		want string
	}{
		{wrong, "the text is not valid UTF-8"},
		{&text, "the text is not valid UTF-8"},
		{json.RawMessage(`"` + wrong + `"`), "the text is not valid UTF-8"},
		{map[string]int{wrong: 1}, "a key is not valid UTF-8"},
		{map[string]any{"a": []any{1, wrong}}, "a[1] is not valid UTF-8"},
		{outer{inner: inner{Text: wrong}}, "text is not valid UTF-8"},
		{[]outer{{List: []any{json.RawMessage(wrong)}}}, "[0].List[0] is not valid UTF-8"},
	} {
		err := Check(c.v)
		if _, ok := errors.AsType[*InvalidError](err); !ok || err.Error() != c.want {
			t.Errorf("%#v: %v, want %s", c.v, err, c.want)
		}
	}
}
