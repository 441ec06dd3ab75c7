package sigv4_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/errcode"
)

var exampleSigner = sigv4test.Signer{AccessKeyID: exampleKey, Secret: exampleSecret, Region: "us-east-1"}

// signedRequest signs at exampleTime. change runs after signing.
func signedRequest(method, target string, change func(*http.Request)) sigv4.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("X-Amz-Meta-A", "1")
	exampleSigner.Sign(r, sigv4test.Unsigned, exampleTime)
	return received(r, change)
}

func presignedRequest(method, target string, change func(*http.Request)) sigv4.Request {
	r := httptest.NewRequest(method, target, nil)
	exampleSigner.Presign(r, time.Hour, exampleTime)
	return received(r, change)
}

func received(r *http.Request, change func(*http.Request)) sigv4.Request {
	if change != nil {
		change(r)
	}
	r.RequestURI = r.URL.RequestURI()
	return sigv4.FromHTTP(r)
}

func replaceAuth(old, replacement string) func(*http.Request) {
	return func(r *http.Request) {
		before := r.Header.Get("Authorization")
		after := strings.Replace(before, old, replacement, 1)
		if after == before {
			panic("nothing replaced: " + before)
		}
		r.Header.Set("Authorization", after)
	}
}

func setHeader(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header[http.CanonicalHeaderKey(name)] = values
		if values == nil {
			r.Header.Del(name)
		}
	}
}

// setQuery replaces a parameter, or removes it if values is empty.
func setQuery(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) {
		q := r.URL.Query()
		q[name] = values
		r.URL.RawQuery = q.Encode()
	}
}

func TestVerifyRefusesHeader(t *testing.T) {
	t.Parallel()
	const scope = "/20130524/us-east-1/s3/aws4_request"
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   sigv4.Kind
	}{
		"as signed":                        {nil, 0},
		"spaces between the fields":        {replaceAuth(",SignedHeaders", ", \tSignedHeaders"), 0},
		"an unsigned header":               {setHeader("X-Other", "1"), 0},
		"Expect":                           {setHeader("Expect", "100-continue"), 0},
		"no credentials":                   {setHeader("Authorization"), sigv4.NoCredentials},
		"empty":                            {setHeader("Authorization", ""), sigv4.Unsupported},
		"twice":                            {setHeader("Authorization", "a", "b"), sigv4.MalformedHeader},
		"version 2":                        {setHeader("Authorization", "AWS key:signature"), sigv4.Unsupported},
		"version 4a":                       {replaceAuth("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), sigv4.Unsupported},
		"another scheme":                   {setHeader("Authorization", "Bearer token"), sigv4.Unsupported},
		"scheme alone":                     {setHeader("Authorization", "AWS4-HMAC-SHA256"), sigv4.MalformedHeader},
		"too long":                         {replaceAuth("SignedHeaders=", "SignedHeaders="+long(12<<10)), sigv4.MalformedHeader},
		"unknown field":                    {replaceAuth("SignedHeaders=", "Signed=1,SignedHeaders="), sigv4.MalformedHeader},
		"field twice":                      {replaceAuth(",Signature=", ",Signature=1,Signature="), sigv4.MalformedHeader},
		"field without a value":            {replaceAuth(exampleKey+scope, ""), sigv4.MalformedHeader},
		"no signature":                     {replaceAuth(",Signature=", ",X="), sigv4.MalformedHeader},
		"comma at the end":                 {replaceAuth(",SignedHeaders", ",,SignedHeaders"), sigv4.MalformedHeader},
		"credential with four parts":       {replaceAuth("/aws4_request", ""), sigv4.MalformedHeader},
		"credential with six parts":        {replaceAuth(exampleKey, "a/b"), sigv4.MalformedHeader},
		"credential ends otherwise":        {replaceAuth("aws4_request", "aws5_request"), sigv4.MalformedHeader},
		"no access key":                    {replaceAuth(exampleKey, ""), sigv4.MalformedHeader},
		"long access key":                  {replaceAuth(exampleKey, long(129)), sigv4.MalformedHeader},
		"another service":                  {replaceAuth("/s3/", "/iam/"), sigv4.MalformedHeader},
		"no region":                        {replaceAuth("us-east-1", ""), sigv4.MalformedHeader},
		"another region":                   {replaceAuth("us-east-1", "US"), sigv4.MalformedHeader},
		"another day":                      {replaceAuth("20130524", "20130523"), sigv4.MalformedHeader},
		"no day":                           {replaceAuth("20130524", "2013-524"), sigv4.MalformedHeader},
		"another access key":               {replaceAuth(exampleKey, "OTHER"), sigv4.UnknownKey},
		"signature in upper case":          {replaceAuth("Signature=", "Signature=A"), sigv4.MalformedHeader},
		"short signature":                  {func(r *http.Request) { h := r.Header.Get("Authorization"); r.Header.Set("Authorization", h[:len(h)-1]) }, sigv4.MalformedHeader},
		"host is not signed":               {replaceAuth("=host;", "="), sigv4.UnsignedHeader},
		"another x-amz header":             {setHeader("X-Amz-Acl", "public-read"), sigv4.UnsignedHeader},
		"signed headers not sorted":        {replaceAuth("host;x-amz-content-sha256", "x-amz-content-sha256;host"), sigv4.MalformedHeader},
		"signed header twice":              {replaceAuth("host;", "host;host;"), sigv4.MalformedHeader},
		"signed header in upper case":      {replaceAuth("host;", "Host;"), sigv4.MalformedHeader},
		"signed header without a name":     {replaceAuth("host;", ";host;"), sigv4.MalformedHeader},
		"signed header with a line end":    {replaceAuth("host;", "host:a\nb;"), sigv4.MalformedHeader},
		"257 signed headers":               {replaceAuth("host;", strings.Repeat("a;", 256)), sigv4.MalformedHeader},
		"signed header was not sent":       {replaceAuth("host;", "date;host;"), sigv4.Mismatch},
		"signed headers of 70 KB":          {setHeader("X-Amz-Meta-A", long(70_000)), sigv4.MalformedHeader},
		"no x-amz-date":                    {setHeader("X-Amz-Date"), sigv4.MissingDate},
		"wrong x-amz-date":                 {setHeader("X-Amz-Date", "Fri, 24 May 2013 00:00:00 GMT"), sigv4.MissingDate},
		"x-amz-date twice":                 {setHeader("X-Amz-Date", "20130524T000000Z", "20130524T000000Z"), sigv4.MissingDate},
		"another time":                     {setHeader("X-Amz-Date", "20130524T000001Z"), sigv4.Mismatch},
		"no payload hash":                  {setHeader("X-Amz-Content-Sha256"), sigv4.MissingPayloadHash},
		"wrong payload hash":               {setHeader("X-Amz-Content-Sha256", strings.ToUpper(emptyHash)), sigv4.InvalidPayloadHash},
		"payload hash twice":               {setHeader("X-Amz-Content-Sha256", emptyHash, emptyHash), sigv4.InvalidPayloadHash},
		"another payload hash":             {setHeader("X-Amz-Content-Sha256", emptyHash), sigv4.Mismatch},
		"payload signed with ECDSA":        {setHeader("X-Amz-Content-Sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), sigv4.Unsupported},
		"session token":                    {setHeader("X-Amz-Security-Token", "token"), sigv4.SessionToken},
		"another method":                   {func(r *http.Request) { r.Method = "DELETE" }, sigv4.Mismatch},
		"another host":                     {func(r *http.Request) { r.Host = "example.org" }, sigv4.Mismatch},
		"another port":                     {func(r *http.Request) { r.Host += ":9000" }, sigv4.Mismatch},
		"another path":                     {func(r *http.Request) { r.URL.Path += "/" }, sigv4.Mismatch},
		"another parameter":                {setQuery("acl", ""), sigv4.Mismatch},
		"another value":                    {setHeader("X-Amz-Meta-A", "2"), sigv4.Mismatch},
		"another value of a signed header": {setHeader("X-Amz-Meta-A", "1", "2"), sigv4.Mismatch},
		"presigned too":                    {setQuery("X-Amz-Signature", "1"), sigv4.SeveralCredentials},
		"version 2 in the query too":       {func(r *http.Request) { r.URL.RawQuery = "AWSAccessKeyId=a&Signature=b" }, sigv4.SeveralCredentials},
		"long target":                      {func(r *http.Request) { r.URL.RawQuery = long(17 << 10) }, sigv4.MalformedURI},
		"query with a wrong escape":        {func(r *http.Request) { r.URL.RawQuery = "a=%zz" }, sigv4.MalformedURI},
		"query with half an escape":        {func(r *http.Request) { r.URL.RawQuery = "a=%1" }, sigv4.MalformedURI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signedRequest("PUT", "/bucket/key?partNumber=1", c.change)
			s, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
			if got := kindOf(t, err); got != c.want || (s == nil) == (err == nil) {
				t.Errorf("got %v, %v, %v; want %v", s, got, err, c.want)
			}
		})
	}
}

func TestVerifyRefusesPresigned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   sigv4.Kind
	}{
		"as signed":                  {nil, 0},
		"an unsigned header":         {setHeader("Content-Type", "text/plain"), 0},
		"no algorithm":               {setQuery("X-Amz-Algorithm"), sigv4.MalformedQuery},
		"algorithm in lower case":    {setQuery("X-Amz-Algorithm", "aws4-hmac-sha256"), sigv4.Unsupported},
		"version 4a":                 {setQuery("X-Amz-Algorithm", "AWS4-ECDSA-P256-SHA256"), sigv4.Unsupported},
		"no credential":              {setQuery("X-Amz-Credential"), sigv4.MalformedQuery},
		"wrong credential":           {setQuery("X-Amz-Credential", "a/b"), sigv4.MalformedQuery},
		"another region":             {setQuery("X-Amz-Credential", exampleKey+"/20130524/eu-west-1/s3/aws4_request"), sigv4.MalformedQuery},
		"another access key":         {setQuery("X-Amz-Credential", "OTHER/20130524/us-east-1/s3/aws4_request"), sigv4.UnknownKey},
		"no date":                    {setQuery("X-Amz-Date"), sigv4.MalformedQuery},
		"wrong date":                 {setQuery("X-Amz-Date", "20130524T000000"), sigv4.MalformedQuery},
		"date that does not exist":   {setQuery("X-Amz-Date", "20130231T000000Z"), sigv4.MalformedQuery},
		"another day":                {setQuery("X-Amz-Date", "20130523T235900Z"), sigv4.MalformedQuery},
		"no expires":                 {setQuery("X-Amz-Expires"), sigv4.MalformedQuery},
		"expires 0":                  {setQuery("X-Amz-Expires", "0"), sigv4.MalformedQuery},
		"expires 604801":             {setQuery("X-Amz-Expires", "604801"), sigv4.MalformedQuery},
		"expires with a sign":        {setQuery("X-Amz-Expires", "+60"), sigv4.MalformedQuery},
		"expires negative":           {setQuery("X-Amz-Expires", "-60"), sigv4.MalformedQuery},
		"expires with 40 digits":     {setQuery("X-Amz-Expires", strings.Repeat("1", 40)), sigv4.MalformedQuery},
		"expires changed":            {setQuery("X-Amz-Expires", "604800"), sigv4.Mismatch},
		"expires twice":              {setQuery("X-Amz-Expires", "3600", "3600"), sigv4.MalformedQuery},
		"no signed headers":          {setQuery("X-Amz-SignedHeaders"), sigv4.MalformedQuery},
		"host is not signed":         {setQuery("X-Amz-SignedHeaders", "date"), sigv4.UnsignedHeader},
		"no signature":               {setQuery("X-Amz-Signature"), sigv4.MalformedQuery},
		"signature twice":            {setQuery("X-Amz-Signature", emptyHash, emptyHash), sigv4.MalformedQuery},
		"short signature":            {setQuery("X-Amz-Signature", "abc"), sigv4.MalformedQuery},
		"another signature":          {setQuery("X-Amz-Signature", emptyHash), sigv4.Mismatch},
		"session token":              {setQuery("X-Amz-Security-Token", "token"), sigv4.SessionToken},
		"session token in a header":  {setHeader("X-Amz-Security-Token", "token"), sigv4.SessionToken},
		"copy source is not signed":  {setHeader("X-Amz-Copy-Source", "/other/key"), sigv4.UnsignedHeader},
		"another parameter":          {setQuery("acl", ""), sigv4.Mismatch},
		"another method":             {func(r *http.Request) { r.Method = "PUT" }, sigv4.Mismatch},
		"another path":               {func(r *http.Request) { r.URL.Path = "/bucket/other" }, sigv4.Mismatch},
		"a payload hash":             {setQuery("X-Amz-Content-Sha256", emptyHash), sigv4.Mismatch},
		"a wrong payload hash":       {setQuery("X-Amz-Content-Sha256", "abc"), sigv4.InvalidPayloadHash},
		"a body in signed chunks":    {setQuery("X-Amz-Content-Sha256", sigv4test.SignedChunks), sigv4.Unsupported},
		"version 2":                  {func(r *http.Request) { r.URL.RawQuery = "AWSAccessKeyId=a&Expires=1&Signature=b" }, sigv4.Unsupported},
		"parameters in lower case":   {func(r *http.Request) { r.URL.RawQuery = strings.ToLower(r.URL.RawQuery) }, sigv4.NoCredentials},
		"parameters are not escaped": {func(r *http.Request) { r.URL.RawQuery, _ = url.QueryUnescape(r.URL.RawQuery) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := presignedRequest("GET", "/bucket/key", c.change)
			_, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
			if got := kindOf(t, err); got != c.want {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// Clients add parameters to presigned URLs. These do not describe the body, which the JavaScript SDK does not know yet:
// it adds the checksum of an empty body.
func TestPresignedURLsOfClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target, body string
		lines        []string
		want         sigv4.Kind
	}{
		"JavaScript SDK": {"/b/k?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD&x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject", "hello", nil, 0},
		"Go SDK":         {"/b/k?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD&x-id=PutObject", "hello", []string{"Content-Type: text/plain"}, 0},
		"rclone":         {"/b/k", "hello", []string{"X-Amz-Content-Sha256: UNSIGNED-PAYLOAD", "X-Amz-Acl: private", "Content-MD5: " + md5Of("hello")}, 0},
		"another MD5":    {"/b/k", "hello", []string{"Content-MD5: " + md5Of("x")}, sigv4.DigestMismatch},
	} {
		r := httptest.NewRequest(http.MethodPut, c.target, nil)
		r.Header = header(c.lines...)
		exampleSigner.Presign(r, time.Hour, exampleTime)
		r.ContentLength = int64(len(c.body))
		body, err := verified(t, r).Body(strings.NewReader(c.body), allowed)
		if err == nil {
			_, err = io.ReadAll(body)
		}
		if kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	header, query := signedRequest("GET", "/", nil), presignedRequest("GET", "/", nil)
	for _, c := range []struct {
		name    string
		request sigv4.Request
		now     time.Duration // after exampleTime
		want    sigv4.Kind
	}{
		{"header, 15 minutes later", header, 15 * time.Minute, 0},
		{"header, later", header, 15*time.Minute + 1, sigv4.TimeTooSkewed},
		{"header, 15 minutes earlier", header, -15 * time.Minute, 0},
		{"header, earlier", header, -15*time.Minute - 1, sigv4.TimeTooSkewed},
		{"query, an hour later", query, time.Hour, 0},
		{"query, later", query, time.Hour + 1, sigv4.Expired},
		{"query, 15 minutes earlier", query, -15 * time.Minute, 0},
		{"query, earlier", query, -15*time.Minute - 1, sigv4.NotYetValid},
	} {
		now := exampleTime.Add(c.now)
		_, err := verifierAt(now).Verify(t.Context(), c.request, exampleLookup)
		if got := kindOf(t, err); got != c.want {
			t.Errorf("%s: got %v, %v; want %v", c.name, got, err, c.want)
		}
		e, ok := errors.AsType[*sigv4.Error](err)
		if !ok {
			continue
		}
		if !e.ServerTime.Equal(now) {
			t.Errorf("%s: the error has the server time %v", c.name, e.ServerTime)
		}
		if e.Kind == sigv4.Expired && !e.Expires.Equal(exampleTime.Add(time.Hour)) || e.Kind == sigv4.TimeTooSkewed && !e.RequestTime.Equal(exampleTime) {
			t.Errorf("%s: the error has %+v", c.name, e)
		}
	}
}

// Old clients send their time only in the Date header.
func TestDateHeader(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]sigv4.Kind{
		"Fri, 24 May 2013 00:00:00 GMT": 0,
		"20130524T000000Z":              0,
		"Fri, 24 May 2013 01:00:00 GMT": sigv4.TimeTooSkewed,
		"yesterday":                     sigv4.MissingDate,
	} {
		r := sigv4.Request{
			Method: "GET", Target: "/?lifecycle", Host: "h",
			Header: header("Date: "+value, "x-amz-content-sha256: "+emptyHash, "Authorization: "+authorization("date;host;x-amz-content-sha256", emptyHash)),
		}
		_, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
		if want == 0 {
			want = sigv4.Mismatch // the time is accepted
		}
		if got := kindOf(t, err); got != want {
			t.Errorf("%s: got %v, want %v", value, got, want)
		}
	}
}

func TestDetailsOfErrors(t *testing.T) {
	t.Parallel()
	verify := func(change func(*http.Request)) *sigv4.Error {
		_, err := verifierAt(exampleTime).Verify(t.Context(), signedRequest("GET", "/bucket/key", change), exampleLookup)
		e, _ := errors.AsType[*sigv4.Error](err)
		return e
	}
	e := verify(setHeader("X-Amz-Meta-A", "<2>"))
	wantText := "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n" + sha256Of(e.CanonicalRequest)
	wantRequest := "GET\n/bucket/key\n\nhost:example.com\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:20130524T000000Z\nx-amz-meta-a:<2>\n\n" +
		"host;x-amz-content-sha256;x-amz-date;x-amz-meta-a\nUNSIGNED-PAYLOAD"
	if e.StringToSign != wantText || e.CanonicalRequest != wantRequest || e.AccessKeyID != exampleKey || len(e.Signature) != 64 {
		t.Errorf("mismatch: %+v", e)
	}
	if strings.Contains(e.Error(), "<2>") || e.ErrorCode() != errcode.Denied || e.Kind.Code() != "SignatureDoesNotMatch" {
		t.Errorf("mismatch: %v, %v", e, e.Kind.Code())
	}
	if e = verify(replaceAuth("us-east-1", "US")); e.Region != "us-east-1" || e.Kind.Code() != "AuthorizationHeaderMalformed" {
		t.Errorf("region: %+v", e)
	}
	if e = verify(setHeader("X-Amz-Meta-A")); e.Kind != sigv4.Mismatch || !slices.Equal(e.Headers, []string{"x-amz-meta-a"}) || e.AccessKeyID != exampleKey {
		t.Errorf("signed header that was not sent: %+v", e)
	}
	if e = verify(setHeader("X-Amz-Acl", "private")); !slices.Equal(e.Headers, []string{"x-amz-acl"}) {
		t.Errorf("unsigned header: %+v", e)
	}
}

func TestAnyRegion(t *testing.T) {
	t.Parallel()
	signer := exampleSigner
	signer.Region = "US"
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	signer.Sign(r, emptyHash, exampleTime)
	s, err := sigv4.New("", func() time.Time { return exampleTime }).Verify(t.Context(), received(r, nil), exampleLookup)
	if err != nil || s.Region != "US" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "here")
	broken := errcode.New(errcode.Unavailable, "the database is unavailable")
	r := signedRequest("GET", "/", nil)
	_, err := verifierAt(exampleTime).Verify(ctx, r, func(ctx context.Context, id string) (string, bool, error) {
		if ctx.Value(key{}) != "here" || id != exampleKey {
			t.Errorf("lookup of %s with another context", id)
		}
		return "", false, broken
	})
	if err != error(broken) {
		t.Errorf("got %v, want the error of the lookup", err)
	}
	signer := exampleSigner
	signer.Secret = ""
	empty := httptest.NewRequest(http.MethodGet, "/", nil)
	signer.Sign(empty, emptyHash, exampleTime)
	_, err = verifierAt(exampleTime).Verify(ctx, received(empty, nil), func(context.Context, string) (string, bool, error) { return "", true, nil })
	if kindOf(t, err) != sigv4.UnknownKey {
		t.Errorf("a signature with an empty secret: %v", err)
	}
}

func TestFromHTTP(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/a%2Fb//c?x": "/a%2Fb//c?x", "/http://host/": "/http://host/", "http://host/a//b?c": "/a//b?c",
		"http://host": "/", "http://host?x": "/?x", "*": "*", "host:443": "host:443",
	} {
		if got := sigv4.FromHTTP(&http.Request{RequestURI: target}); got.Target != want {
			t.Errorf("%s: %s, want %s", target, got.Target, want)
		}
	}
	for target, want := range map[string]bool{
		"/": false, "/?X-Amz-Signature": true, "/?a&X-Amz-Credential=b": true, "/?X-Amz-Signatures=a": false, "/?Signature=b": false,
		"/?AWSAccessKeyId=a&Signature=b": true, "/X-Amz-Signature": false,
	} {
		if got := (sigv4.Request{Target: target}).HasCredentials(); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := sigv4.NoCredentials; k <= sigv4.PolicyConditionMissing; k++ {
		e := &sigv4.Error{Kind: k}
		if seen[k.String()] || k.String() == "" || k.Code() == "" || e.ErrorCode() == errcode.Internal {
			t.Errorf("kind %d is %q, %q, %v", k, k, k.Code(), e.ErrorCode())
		}
		seen[k.String()] = true
	}
	for _, k := range []sigv4.Kind{0, 255} {
		if e := (&sigv4.Error{Kind: k}); k.String() != "unknown" || e.ErrorCode() != errcode.Internal {
			t.Errorf("kind %d is %q", k, k)
		}
	}
}
