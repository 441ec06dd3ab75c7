package s3api_test

import (
	"mime"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Clients may send non-ASCII text raw or as encoded words, but receive encoded words.
func TestUserMetadataInEncodedWords(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	long := strings.Repeat("äöü€😀 ", 30)
	for _, c := range []struct{ sent, stored, answer string }{
		{"plain ASCII_?=", "plain ASCII_?=", "plain ASCII_?="},
		{"日本 AB", "日本 AB", "=?UTF-8?Q?=E6=97=A5=E6=9C=AC_AB?="},
		{"日本", "日本", "=?UTF-8?B?5pel5pys?="},
		{"=?UTF-8?B?5pel5pys?=", "日本", "=?UTF-8?B?5pel5pys?="},
		{"my caf\xc3\xa9", "my café", "=?UTF-8?Q?my_caf=C3=A9?="},
		{"my caf\xe9", "my café", "=?UTF-8?Q?my_caf=C3=A9?="}, // Latin-1
		{"=?iso-8859-1?q?my_caf=E9?=", "my café", "=?UTF-8?Q?my_caf=C3=A9?="},
		{"=?utf-8?q?ASCII?=", "ASCII", "ASCII"},
		{"a =?utf-8?q?=C3=A9?= =?utf-8?b?w6k=?= z =?", "a éé z =?", "=?UTF-8?Q?a_=C3=A9=C3=A9_z_=3D=3F?="},
		{long, strings.TrimSpace(long), ""},
		{"=?utf-8?q?a=0D=0ASet-Cookie:_b=00?=", "a  Set-Cookie: b", "a  Set-Cookie: b"},
		// Invalid words stay unchanged.
		{"=?utf-8?b?***?=", "=?utf-8?b?***?=", "=?utf-8?b?***?="},
		{"=?koi8-r?q?=C1?=", "=?koi8-r?q?=C1?=", "=?koi8-r?q?=C1?="},
		// An encoded word in an encoded word is text.
		{"=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?=", "=?utf-8?q?x?=", "=?UTF-8?B?PT91dGYtOD9xP3g/PQ==?="},
	} {
		s.do("PUT", "/photos/k", hello, "x-amz-meta-a: "+c.sent).want(200)
		s.do("PUT", "/photos/copy", "", "x-amz-copy-source: /photos/k").want(200)
		for _, target := range []string{"/photos/k", "/photos/copy"} {
			got := s.do("GET", target, "").want(200).header["X-Amz-Meta-A"]
			if len(got) != 1 || c.answer != "" && got[0] != c.answer {
				t.Fatalf("%q: header %q, want %q", c.sent, got, c.answer)
			}
			if head := s.do("HEAD", target, "").header.Get("X-Amz-Meta-A"); head != got[0] {
				t.Fatalf("%q: HEAD has %q, GET has %q", c.sent, head, got[0])
			}
			if text, err := new(mime.WordDecoder).DecodeHeader(got[0]); text != c.stored && err == nil {
				t.Fatalf("%q: %q, want %q", c.sent, text, c.stored)
			}
			for word := range strings.FieldsSeq(got[0]) {
				if c.answer == "" && (len(word) > 75 || !strings.HasPrefix(word, "=?UTF-8?")) {
					t.Fatalf("not an encoded word: %q", word)
				}
			}
		}
	}
	// The limit applies to the decoded text.
	s.do("PUT", "/photos/k", hello, "x-amz-meta-a: "+mime.QEncoding.Encode("utf-8", strings.Repeat("é", 1023))).want(200)
	s.do("PUT", "/photos/k", hello, "x-amz-meta-a: "+mime.QEncoding.Encode("utf-8", strings.Repeat("é", 1024))).fails(400, "MetadataTooLarge")
}

func TestUserMetadataOfGoSDK(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	c, ctx := s.client(), t.Context()
	for _, text := range []string{"Grüße 😀", "日本語", "ASCII", "=?UTF-8?B?ZMOpasOg?="} {
		ok[*s3.PutObjectOutput](t)(c.PutObject(ctx, &s3.PutObjectInput{
			Bucket: aws.String("photos"), Key: aws.String("k"), Body: strings.NewReader(hello), Metadata: map[string]string{"a": text},
		}))
		head := ok[*s3.HeadObjectOutput](t)(c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("photos"), Key: aws.String("k")}))
		want, _ := new(mime.WordDecoder).DecodeHeader(text)
		if got, err := new(mime.WordDecoder).DecodeHeader(head.Metadata["a"]); err != nil || got != want {
			t.Errorf("%q: got %q (%q), %v", text, head.Metadata["a"], got, err)
		}
	}
}
