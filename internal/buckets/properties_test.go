package buckets

import (
	"reflect"
	"testing"
)

func FuzzDecodePlain(f *testing.F) {
	for _, text := range []string{
		`{"s3": {"checksum": {"value": "abc=", "algorithm": "CRC64NVME"}}}`,
		`{"s3":{"etag":"00-2","upload":"c0","parts":2,"checksum":{"algorithm":"SHA1","value":"a-2","composite":true}}}`,
		`{"s3": {"parts": 1234567890}}`, `{"s3":{"imported":1700000000123456}}`, `{"s3":{"imported":1234567890123456789}}`, `{"s3":{"imported":-1}}`, `{"s3":{"parts":12.5}}`, `{"s3":{"parts":01}}`, `{"s3":{"checksum":{"composite":false}}}`,
		`{"s3":{"tags":{"a":"b"}}}`, `{"s3":{"etag":"\u0041"}}`, `{"s3":{"etag":"a"},"own":1}`, `{"s3":{"etag":"a"},"s3":{"parts":1}}`,
		`{}`, `{"s3":{}}`, `{"s3":null}`, `{"s3":{"etag":"a"}`, `{"s3":{"etag":"a"}} x`, `{"s3":{"etag":"a",}}`, `{"s3":{"checksum":{"composite":truex}}}`,
		`{"s3":{"etag":""}}` + "\x00", `{"s3":{"lock":{"mode":"GOVERNANCE","until":1700000000000000,"hold":"ON"}}}`, `{"s3":{"lock":{"until":0}}}`, `{"s3":{"lock":{}}}`, `{"s3":{"class":"GLACIER_IR"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := decodePlain(text)
		if !ok {
			return
		}
		want, err := decodeAny(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, want %+v, %v", text, got, want, err)
		}
	})
}

// TestDecodePlain checks that properties of S3 objects take the fast path, also in jsonb's format.
func TestDecodePlain(t *testing.T) {
	t.Parallel()
	p := Properties{ETag: "00-2", Upload: "c0", Parts: 2, Checksum: Checksum{Algorithm: "CRC32C", Value: "a=-2", Composite: true}, Imported: 1_700_000_000_123_456, Lock: Lock{Mode: Governance, Until: 1_700_000_000_000_000, Hold: HoldOff}, Class: "STANDARD_IA"}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(text), `{"s3": {"etag": "00-2", "parts": 2, "upload": "c0", "checksum": {"value": "a=-2", "algorithm": "CRC32C", "composite": true}, "imported": 1700000000123456, "lock": {"mode": "GOVERNANCE", "until": 1700000000000000, "hold": "OFF"}, "class": "STANDARD_IA"}}`} {
		if got, ok := decodePlain([]byte(text)); !ok || !reflect.DeepEqual(got, p) {
			t.Errorf("%s is %+v, %v", text, got, ok)
		}
	}
}
