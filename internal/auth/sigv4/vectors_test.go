package sigv4_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
)

// These are the access key, time and signatures in the Amazon S3 API Reference.
const (
	exampleKey    = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	emptyHash     = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var exampleTime = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)

func exampleLookup(_ context.Context, id string) (string, bool, error) {
	return exampleSecret, id == exampleKey, nil
}

func verifierAt(t time.Time) *sigv4.Verifier {
	return sigv4.New("us-east-1", func() time.Time { return t })
}

func authorization(signed, signature string) string {
	return "AWS4-HMAC-SHA256 Credential=" + exampleKey + "/20130524/us-east-1/s3/aws4_request,SignedHeaders=" + signed + ",Signature=" + signature
}

func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}

// exampleRequests are from "Transferring Payload in a Single Chunk" and "Authenticating Requests: Using Query
// Parameters".
func exampleRequests() map[string]sigv4.Request {
	request := func(method, target string, lines ...string) sigv4.Request {
		return sigv4.Request{Method: method, Target: target, Host: "examplebucket.s3.amazonaws.com", Header: header(lines...)}
	}
	put := request("PUT", "/test%24file.text",
		"Date: Fri, 24 May 2013 00:00:00 GMT", "x-amz-date: 20130524T000000Z", "x-amz-storage-class: REDUCED_REDUNDANCY",
		"x-amz-content-sha256: 44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
		"Authorization: "+authorization("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"))
	put.ContentLength = 21
	asSent := put
	asSent.Target = "/test$file.text"
	return map[string]sigv4.Request{
		"GET object": request("GET", "/test.txt",
			"Range: bytes=0-9", "x-amz-date: 20130524T000000Z", "x-amz-content-sha256: "+emptyHash,
			"Authorization: "+authorization("host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")),
		"PUT object":          put,
		"PUT object, as sent": asSent,
		"GET bucket lifecycle": request("GET", "/?lifecycle",
			"x-amz-date: 20130524T000000Z", "x-amz-content-sha256: "+emptyHash,
			"Authorization: "+authorization("host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")),
		"list objects": request("GET", "/?max-keys=2&prefix=J",
			"x-amz-date: 20130524T000000Z", "x-amz-content-sha256: "+emptyHash,
			"Authorization: "+authorization("host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")),
		"presigned URL": request("GET", "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"+
			"&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"+
			"&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"),
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	for name, r := range exampleRequests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
			if err != nil {
				t.Fatal(err)
			}
			if s.AccessKeyID != exampleKey || s.Region != "us-east-1" || !s.Time.Equal(exampleTime) || s.Presigned != (name == "presigned URL") {
				t.Errorf("got %+v", s)
			}
			if r.Method != "PUT" {
				return
			}
			body, err := s.Body(strings.NewReader("Welcome to Amazon S3."), sigv4.BodyOptions{MaxSize: 100})
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(body); err != nil || string(data) != "Welcome to Amazon S3." {
				t.Errorf("got %q, %v", data, err)
			}
		})
	}
}

// The examples are from "Transferring Payload in Multiple Chunks" and "Including Trailing Headers".
func TestExamplesOfChunks(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("a", 65536+1024)
	common := []string{"Content-Encoding: aws-chunked", "x-amz-date: 20130524T000000Z", "x-amz-decoded-content-length: 66560", "x-amz-storage-class: REDUCED_REDUNDANCY"}
	chunk := func(size, signature, data string) string {
		return size + ";chunk-signature=" + signature + "\r\n" + data
	}
	for _, c := range []struct {
		name   string
		header http.Header
		length int64
		body   string
	}{
		{
			"chunks",
			header(append(common, "Content-Length: 66824", "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
				"Authorization: "+authorization("content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
					"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"))...),
			66824,
			chunk("10000", "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648", data[:65536]+"\r\n") +
				chunk("400", "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497", data[65536:]+"\r\n") +
				chunk("0", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9", "\r\n"),
		},
		{
			"trailer",
			header(append(common, "x-amz-trailer: x-amz-checksum-crc32c", "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
				"Authorization: "+authorization("content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
					"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"))...),
			-1,
			chunk("10000", "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2", data[:65536]+"\r\n") +
				chunk("400", "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7", data[65536:]+"\r\n") +
				chunk("0", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992", "x-amz-checksum-crc32c:sOO8/Q==\r\n"+
					"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := sigv4.Request{Method: "PUT", Target: "/examplebucket/chunkObject.txt", Host: "s3.amazonaws.com", Header: c.header, ContentLength: c.length}
			s, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
			if err != nil {
				t.Fatal(err)
			}
			body, err := s.Body(strings.NewReader(c.body), sigv4.BodyOptions{MaxSize: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			if err != nil || string(got) != data || body.Size() != 66560 {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if r, ok := body.Result(); !ok || r.Size != 66560 {
				t.Errorf("result %+v, %v", r, ok)
			}
		})
	}
}

// examplePolicy is from "Example: Browser-Based Upload using HTTP POST", with the line breaks of its base64.
var examplePolicy = strings.ReplaceAll(`{ "expiration": "2015-12-30T12:00:00.000Z",
  "conditions": [
    {"bucket": "sigv4examplebucket"},
    ["starts-with", "$key", "user/user1/"],
    {"acl": "public-read"},
    {"success_action_redirect": "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html"},
    ["starts-with", "$Content-Type", "image/"],
    {"x-amz-meta-uuid": "14365123651274"},
    {"x-amz-server-side-encryption": "AES256"},
    ["starts-with", "$x-amz-meta-tag", ""],

    {"x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"},
    {"x-amz-algorithm": "AWS4-HMAC-SHA256"},
    {"x-amz-date": "20151229T000000Z" }
  ]
}`, "\n", "\r\n")

func exampleForm() map[string]string {
	return map[string]string{
		"bucket": "sigv4examplebucket", "key": "user/user1/photo.jpg", "acl": "public-read",
		"success_action_redirect": "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html",
		"content-type":            "image/jpeg", "x-amz-meta-uuid": "14365123651274", "x-amz-server-side-encryption": "AES256",
		"x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request", "x-amz-algorithm": "AWS4-HMAC-SHA256",
		"x-amz-date": "20151229T000000Z", "x-amz-meta-tag": "", "policy": base64Of(examplePolicy),
		"x-amz-signature": "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e",
	}
}

func TestExampleOfForm(t *testing.T) {
	t.Parallel()
	fields := exampleForm()
	form, err := verifierAt(time.Date(2015, 12, 30, 12, 0, 0, 0, time.UTC)).VerifyForm(t.Context(), fields, exampleLookup)
	if err != nil {
		t.Fatal(err)
	}
	if form.AccessKeyID != exampleKey {
		t.Errorf("got %+v", form)
	}
	if err := form.Policy.Check(fields); err != nil {
		t.Error(err)
	}
	if !json.Valid([]byte(examplePolicy)) {
		t.Error("the example is not valid JSON")
	}
}

// kindOf returns an error's kind, or 0 for nil. It fails the test if the error is not an *Error.
func kindOf(t testing.TB, err error) sigv4.Kind {
	t.Helper()
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*sigv4.Error](err)
	if !ok {
		t.Fatalf("not an *Error: %v", err)
	}
	return e.Kind
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
