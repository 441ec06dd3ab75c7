//test:unraced its goroutines share nothing

package jsonschema_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"holdfast/internal/jsonschema"
)

const benchSchema = `{"type":"object","required":["id","items"],"additionalProperties":false,"properties":{
	"id":{"type":"string","pattern":"^[a-z0-9-]{1,36}$"},
	"title":{"type":"string","maxLength":200},
	"items":{"type":"array","uniqueItems":true,"items":{"$ref":"#/$defs/item"}}},
	"$defs":{"item":{"type":"object","required":["sku","count"],"unevaluatedProperties":false,"properties":{
		"sku":{"type":"string","minLength":3},"count":{"type":"integer","minimum":0},"state":{"enum":["open","paid","sent"]},
		"tags":{"type":"array","items":{"type":"string"}}}}}}`

func benchValue(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"id":"0190163d-8694-739b-aea5-966c26f8","title":"a list of things","items":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"thing-%d","count":%d,"state":"paid","tags":["a","bc"]}`, i, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, benchSchema)
	theirs := plain(b, []byte(benchSchema))
	for _, size := range []int{1 << 10, 23 << 10, 64 << 10} {
		text := benchValue(size)
		value := canonical(b, text)
		b.Run(fmt.Sprintf("%d KB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Validate(context.Background(), value); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.Spent()), "steps")
		})
		b.Run(fmt.Sprintf("%d KB, the library alone", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
				if err != nil {
					b.Fatal(err)
				}
				if err := theirs.Validate(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("1 KB, invalid", func(b *testing.B) {
		value := canonical(b, bytes.Replace(benchValue(1<<10), []byte(`"count":3`), []byte(`"count":"x"`), 1))
		b.ReportAllocs()
		for b.Loop() {
			if s.Validate(context.Background(), value) == nil {
				b.Fatal("valid")
			}
		}
	})
}

func largest() []byte {
	var b strings.Builder
	b.WriteString(`{"properties":{`)
	for i := range 490 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"member%d":{"anyOf":[{"type":"string","pattern":"^x{9}"},{"items":{"minimum":%d,"maximum":1e3}}]}`, i, i)
	}
	b.WriteString(`}}`)
	return []byte(b.String())
}

func BenchmarkCheck(b *testing.B) {
	for name, document := range map[string][]byte{"plain": []byte(benchSchema), "largest": largest()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(document)))
			for b.Loop() {
				if err := jsonschema.Check(document); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, document := range map[string][]byte{"plain": []byte(benchSchema), "largest": largest()} {
		b.Run(name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			s := compile(b, string(document))
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(s)
			for b.Loop() {
				compile(b, string(document))
			}
			b.ReportMetric(float64(after.HeapAlloc)-float64(before.HeapAlloc), "B-kept")
			b.ReportMetric(float64(len(document)), "B-document")
		})
	}
}

func BenchmarkTrial(b *testing.B) {
	s := sandbox(b, "main")
	for b.Loop() {
		if err := s.Trial(b.Context(), []byte(benchSchema), nil); err != nil {
			b.Fatal(err)
		}
	}
}
