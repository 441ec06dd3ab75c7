package storetest

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

func valueChecks() []check {
	return []check{
		{"CanonicalText", canonicalText},
		{"ExactNumbers", exactNumbers},
		{"NumbersOfManyDigits", numbersOfManyDigits},
		{"NumbersOfManyZeros", numbersOfManyZeros},
		{"LargestValue", largestValue},
		{"Metadata", metadata},
		{"Keys", keyNames},
		{"KeysThatLookAlike", keysThatLookAlike},
		{"Namespaces", namespaceNames},
	}
}

func wantKept(t *testing.T, u *user, texts ...string) {
	t.Helper()
	for i, text := range texts {
		v, err := canonjson.Parse([]byte(text), ext.MaxValueBytes)
		must(t, "ParseValue", err)
		key := fmt.Sprintf("%03d", i)
		u.apply(put("settings", key, string(v)))
		r := u.get("settings", key)
		equal(t, "value of "+text, r.Value, v)
		equal(t, "bytes of "+text, r.ValueBytes, int64(len(v)))
	}
	u.state()
}

func canonicalText(t *testing.T, u *user) {
	wantKept(t, u, `null`, `true`, `false`, `0`, `-7`, `""`, `[]`, `{}`, `[[],{},""]`,
		`{"b":1,"a":2,"aa":3,"":4,"B":5}`, `{"é":1,"z":2,"zz":3,"日本":4,"😀":5}`, ` { "a" : [ 1 , 2 ] } `,
		`"\u0001\b\f\n\r\t\"\\\/\u007f\u0080\u2028\u2029\ufeff\ud83d\ude00"`, `"<script>&amp;</script>"`, `"café café"`,
		`{"\u0001":1,"\"":2,"\\":3,"a/b":4,"__proto__":5}`, strings.Repeat("[", canonjson.MaxDepth)+strings.Repeat("]", canonjson.MaxDepth))
}

func exactNumbers(t *testing.T, u *user) {
	wantKept(t, u, `9007199254740993`, `-9007199254740993`, `18446744073709551617`, `0.1`, `0.30000000000000004`, `1.0`, `-0`, `-0.0`, `1e0`,
		`10e-1`, `1E2`, `100000000000000000000`, `1000000000000000000000`, `1e21`, `1.5e300`, `0.00001`, `1e-7`, `1e-20`, `1e-21`, `1e-308`,
		`123456789012345678901234567890.123456789012345678901234567890`, `[1.50,2.00,3e3]`, `1e308`, `9.99e-300`)
}

func numbersOfManyDigits(t *testing.T, u *user) {
	nines := strings.Repeat("9", canonjson.MaxDigits)
	wantKept(t, u, nines[:308], "0."+nines[:300], "-"+nines[:200]+"."+nines[:200])
}

func numbersOfManyZeros(t *testing.T, u *user) {
	full := func(number string) string {
		n := ext.MaxValueBytes / (len(number) + 1)
		return "[" + strings.Repeat(number+",", n-1) + number + "]"
	}
	wantKept(t, u, "["+strings.Repeat("6.62607015e-34,", 3_000)+"6.62607015e-34]", full("1e-45"), full("-1e38"), full("3.40282347e38"),
		"["+strings.Repeat("1e308,", 1_700)+"-1e-308]")
}

func largestValue(t *testing.T, u *user) {
	texts := []string{
		`"` + strings.Repeat("x", ext.MaxValueBytes-2) + `"`,
		`"` + strings.Repeat("é", (ext.MaxValueBytes-2)/2) + `"`,
		`[` + strings.Repeat("0,", ext.MaxValueBytes/2-2) + `0]`,
	}
	wantKept(t, u, texts...)
	op := put("settings", "m", texts[0])
	op.Metadata = canonjson.Value(`{"m":"` + strings.Repeat("y", ext.MaxMetadataBytes-8) + `"}`)
	u.apply(op)
	r := u.get("settings", "m")
	equal(t, "metadata", r.Metadata, op.Metadata)
	equal(t, "bytes", r.Bytes(), int64(ext.MaxValueBytes+ext.MaxMetadataBytes))
	u.state()
}

func metadata(t *testing.T, u *user) {
	op := put("settings", "a", `1`)
	op.Metadata = `{"n":9007199254740993,"tag":"é"}`
	u.apply(op)
	equal(t, "metadata", u.get("settings", "a").Metadata, op.Metadata)
	equal(t, "metadata bytes", u.get("settings", "a").MetadataBytes, int64(len(op.Metadata)))
	op.Keep, op.Metadata, op.Value = true, canonjson.EmptyObject, `22`
	u.apply(op)
	r := u.get("settings", "a")
	equal(t, "metadata kept", r.Metadata, canonjson.Value(`{"n":9007199254740993,"tag":"é"}`))
	equal(t, "value beside it", r.Value, canonjson.Value(`22`))
	u.apply(put("settings", "a", `1`))
	equal(t, "metadata after a put without it", u.get("settings", "a").Metadata, canonjson.EmptyObject)
	u.state()
}

// oddKeys might be interpreted by proxies or libraries.
var oddKeys = []string{
	".", "..", "%", "_", "%2F", "a%b", "a_b", "a*b", `a\b`, `a"b`, "a'b", "a b", " ", "  ", "a.b", "~", "-", "{c}", "$1", "?1", "NULL", "true", "0", "00",
	"é", "日本語", "😀", "\U0010ffff", "\ue000", "\ud7ff", "\u00a0", "\u2028", "\ufeff", "\ufffd", strings.Repeat("k", ext.MaxKey), strings.Repeat("\U0001f600", ext.MaxKey),
}

func keyNames(t *testing.T, u *user) {
	for i, key := range oddKeys {
		_, err := ext.ParseKey(key)
		must(t, fmt.Sprintf("ParseKey %q", key), err)
		u.apply(put("settings", key, fmt.Sprint(i)))
	}
	for i, key := range oddKeys {
		equal(t, fmt.Sprintf("value of %q", key), u.get("settings", key).Value, canonjson.Value(fmt.Sprint(i)))
	}
	u.state()
	for _, key := range oddKeys {
		equal(t, fmt.Sprintf("%q was there", key), u.do(del("settings", key)).Existed, true)
	}
	equal(t, "counters", u.audited(), ext.Counters{})
}

func keysThatLookAlike(t *testing.T, u *user) {
	alike := []string{"a", "A", "a ", " a", "é", "e\u0301", "ﬁ", "fi", "ß", "ss", "i", "ı", "İ", "I", "１", "1", "\u212b", "Å"}
	for i, key := range alike {
		equal(t, fmt.Sprintf("%q is new", key), u.do(guarded(put("settings", key, fmt.Sprint(i)), ifRevision(0))).Created, true)
	}
	for i, key := range alike {
		equal(t, fmt.Sprintf("value of %q", key), u.get("settings", key).Value, canonjson.Value(fmt.Sprint(i)))
	}
	u.state()
}

func namespaceNames(t *testing.T, u *user) {
	names := []string{"a", "a-", "a-b", "ab", "0", "00", "9z-", strings.Repeat("n", ext.MaxNamespace)}
	for i, ns := range names {
		u.apply(put(ns, "key", fmt.Sprint(i)))
	}
	for i, ns := range names {
		u.wantKeys(ns, u.list(ext.Query{Namespace: ext.Namespace(ns)}), "key")
		equal(t, "value in "+ns, u.get(ns, "key").Value, canonjson.Value(fmt.Sprint(i)))
	}
	equal(t, "namespaces", u.audited().Namespaces, int64(len(names)))
	u.state()
}
