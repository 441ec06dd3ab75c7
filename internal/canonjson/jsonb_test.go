package canonjson_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/canonjson"
	"holdfast/internal/testdb"
)

type jsonb struct {
	text  string
	bytes int // text length
	kept  int // column bytes before compression
}

func asJSONB(t *testing.T, conn *pgx.Conn, values []string) []jsonb {
	t.Helper()
	rows, err := conn.Query(t.Context(),
		`SELECT j::text, octet_length(j::text), pg_column_size(j)
		 FROM unnest($1::text[]) WITH ORDINALITY AS v (t, n), LATERAL (SELECT t::jsonb AS j) AS c ORDER BY n`, values)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j jsonb, err error) {
		err = row.Scan(&j.text, &j.bytes, &j.kept)
		return j, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(values) {
		t.Fatalf("%d of %d values came back", len(all), len(values))
	}
	return all
}

// chooser makes random JSON texts that Parse accepts.
type chooser struct{ *rand.Rand }

func (c chooser) pick(options ...string) string { return options[c.IntN(len(options))] }

func (c chooser) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0' + byte(c.IntN(10))
	}
	return string(b)
}

func (c chooser) number() string {
	switch c.IntN(6) {
	case 0:
		return strconv.Itoa(c.IntN(2_000_001) - 1_000_000)
	case 1:
		return strconv.FormatFloat(c.NormFloat64()*1e3, 'g', -1, 64)
	case 2:
		return c.pick("0", "-0", "0.0", "-0e7", "1.0", "100e-2", "1e308", "9.99e308", "1e-308", "-1e-308", "1e20", "1e21", "1e-20", "1e-21",
			"1e-22", "9223372036854775808", "0.1", strings.Repeat("9", 309), "1."+strings.Repeat("7", 399))
	}
	whole := c.pick("0", strconv.Itoa(1+c.IntN(9))+c.digits(c.IntN(40)))
	fraction := c.pick("", "."+c.digits(1+c.IntN(40)))
	exponent := c.pick("", "e"+c.pick("", "+", "-")+strconv.Itoa(c.IntN(260)))
	return c.pick("", "-") + whole + fraction + exponent
}

func (c chooser) str() string {
	var b strings.Builder
	b.WriteByte('"')
	for range c.IntN(6) {
		switch c.IntN(5) {
		case 0:
			b.WriteString(c.pick(`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`))
		case 1:
			fmt.Fprintf(&b, `\u%04x`, 1+c.IntN(0xd7ff))
		case 2:
			r := 0x10000 + c.IntN(0x100000)
			fmt.Fprintf(&b, `\u%04X\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case 3:
			b.WriteString(c.pick("\x7f", "é", "\u0301", "\u2028", "\ufffd", "\uffff", "😀", "\U0010ffff", "ÿ", "<&>"))
		default:
			fmt.Fprintf(&b, `\u%04x`, 1+c.IntN(0x1f))
			b.WriteByte('a' + byte(c.IntN(26)))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (c chooser) value(depth int) string {
	space := func() string { return c.pick("", "", "", " ", "\n\t") }
	kind := c.IntN(7)
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return c.pick("null", "true", "false")
	case 1, 2:
		return c.number()
	case 3:
		return c.str()
	case 4:
		var items []string
		for range c.IntN(5) {
			items = append(items, space()+c.value(depth-1)+space())
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	var members []string
	for i := range c.IntN(8) {
		// The index makes names unique.
		name := c.str()
		name = name[:len(name)-1] + c.pick("", "x", "yy") + "#" + strconv.Itoa(i) + `"`
		members = append(members, space()+name+space()+":"+c.value(depth-1))
	}
	return "{" + strings.Join(members, ",") + space() + "}"
}

var (
	exponents = regexp.MustCompile(`[0-9]e-?[0-9]`)
	spaces    = strings.NewReplacer(": ", ":", ", ", ",")
)

// TestRoundTripThroughJSONB checks that jsonb returns the same canonical value, and not much longer.
func TestRoundTripThroughJSONB(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := chooser{rand.New(rand.NewPCG(seed, 0))}
	const limit = 16_384
	deepest := strings.Repeat(`{"a":[`, canonjson.MaxDepth/2) + strings.Repeat(`]}`, canonjson.MaxDepth/2)
	texts := []string{deepest, `{"":{"":""}}`, `[1e308,-1e308,1e-308,-1e-308]`}
	for len(texts) < 6_000 {
		texts = append(texts, c.value(c.IntN(6)))
	}
	var values []string
	for _, text := range texts {
		v, err := canonjson.Parse([]byte(text), limit)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		values = append(values, string(v))
	}
	exact := 0
	for i, j := range asJSONB(t, conn, values) {
		back, err := canonjson.Restore([]byte(j.text))
		if err != nil || string(back) != values[i] {
			t.Fatalf("%s came back as %s, which is %s, %v", values[i], j.text, back, err)
		}
		if j.bytes > 3*limit {
			t.Errorf("%d bytes came back as %d", len(values[i]), j.bytes)
		}
		// Without exponents, jsonb's text is canonical except for spaces, so members need no sorting.
		if exponents.MatchString(values[i]) {
			continue
		}
		exact++
		if spaces.Replace(j.text) != values[i] {
			t.Errorf("%s is spelled %s by jsonb", values[i], j.text)
		}
	}
	if exact < len(values)/3 {
		t.Errorf("only %d of %d values have no exponents", exact, len(values))
	}
}

func TestGrowthInJSONB(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const limit = maxBytes
	// Each item is repeated as often as the limit allows.
	for _, items := range []string{
		"1", "true", `""`, "[]", "{}", "0.1", `"\u0001"`, `"\n"`, "[[[[[]]]]]", `{"a":1}`, "1e308", "1e21", "-1e-308", "1." + strings.Repeat("3", 399) + "e300",
		"1e308," + strings.Repeat("1,", 152) + "1",
	} {
		lo, hi := 0, limit
		var best canonjson.Value
		for lo < hi { // find the maximum number of repetitions
			n := (lo + hi + 1) / 2
			v, err := canonjson.Parse([]byte("["+strings.Repeat(items+",", n-1)+items+"]"), limit)
			if err != nil {
				hi = n - 1
				continue
			}
			lo, best = n, v
		}
		j := asJSONB(t, conn, []string{string(best)})[0]
		t.Logf("%6.6s × %5d: %6d bytes, as text from jsonb %6d, in jsonb %6d", items, lo, len(best), j.bytes, j.kept)
		if len(best) < limit/60 {
			t.Errorf("%.20s: no more than %d bytes are accepted", items, len(best))
		}
		if j.bytes >= 10*limit {
			t.Errorf("%.20s: %d bytes came back as %d", items, len(best), j.bytes)
		}
		if back, err := canonjson.Restore([]byte(j.text)); err != nil || back != best {
			t.Errorf("%.20s: came back as a different value, %v", items, err)
		}
	}
}
