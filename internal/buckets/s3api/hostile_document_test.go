package s3api_test

import (
	"io"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestHostileBuckets(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, name := range []string{
		"ab", strings.Repeat("a", 64), "Photos", "my_photos", "my photos", "..", "...", "a..b", ".photos", "photos.", "-photos", "photos-", "a.-b", "192.168.5.4", "%00%00%00", "%ff%ff%ff", "ph%C3%B6tos", "photos%2f", "%2e%2e%2f%2e%2e",
		"'--photos", "$(photos)", "xn--%00", "photos%0d%0a",
	} {
		name = strings.ReplaceAll(name, " ", "%20")
		s.do("PUT", "/"+name, "").fails(400, "InvalidBucketName")
		for _, method := range []string{"GET", "DELETE"} {
			s.do(method, "/"+name, "").fails(404, "NoSuchBucket")
		}
		s.do("PUT", "/"+name+"/k", hello).fails(404, "NoSuchBucket")
		s.anonymous("GET", "/"+name+"/k", "").fails(403, "AccessDenied")
	}
	for _, target := range []string{"/main:", "/main:/k", "/:", "/:photos", "/:photos/k"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			s.do(method, target, "").fails(400, "InvalidBucketName")
		}
		s.anonymous("GET", target, "").fails(400, "InvalidBucketName")
	}
	for host, status := range map[string]int{".s3.test": 400, "..s3.test": 403, "a..s3.test": 403, "photos.nobody.s3.test": 403, "PHOTOS.s3.test.": 200, "photos.s3.test.evil": 200} {
		a := s.do("GET", "/", "", "Host: "+host).want(status)
		if strings.Contains(a.body, "<ListBucketResult") {
			t.Errorf("%s is a bucket", host)
		}
	}
	s.do("GET", "/", "").want(200).has("<Name>photos</Name>")
	if n := strings.Count(s.do("GET", "/", "").body, "<Name>"); n != 1 {
		t.Errorf("%d buckets, want 1", n)
	}
}

func TestHostileParts(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k")
	one, two, three := s.part("/photos/k", id, "1", "0123456789"), s.part("/photos/k", id, "2", "small"), s.part("/photos/k", id, "10000", "last")
	part := func(number, tag string) string {
		return "<Part><PartNumber>" + number + "</PartNumber><ETag>" + tag + "</ETag></Part>"
	}
	for name, c := range map[string]struct{ parts, code string }{
		"doubled":                {one + one, "InvalidPartOrder"},
		"out of order":           {three + one, "InvalidPartOrder"},
		"too small":              {one + two + three, "EntityTooSmall"},
		"missing":                {one + part("3", md5Tag("x")), "InvalidPart"},
		"tag of another":         {part("1", md5Tag("small")), "InvalidPart"},
		"no tag":                 {"<Part><PartNumber>1</PartNumber></Part>", "InvalidPart"},
		"tag is none":            {part("1", "<![CDATA[<&]]>"), "InvalidPart"},
		"tag in parts":           {part("1", md5Tag("0123456789")+"-1"), "InvalidPart"},
		"no number":              {"<Part><ETag>" + md5Tag("0123456789") + "</ETag></Part>", "InvalidPart"},
		"number 0":               {part("0", md5Tag("x")), "InvalidPart"},
		"number 10001":           {part("10001", md5Tag("x")), "InvalidPart"},
		"number -1":              {part("-1", md5Tag("x")), "InvalidPart"},
		"number that overflows":  {part("9223372036854775808", md5Tag("x")), "MalformedXML"},
		"number is a word":       {part("one", md5Tag("x")), "MalformedXML"},
		"two numbers":            {"<Part><PartNumber>1</PartNumber><PartNumber>2</PartNumber><ETag>x</ETag></Part>", "MalformedXML"},
		"a checksum of no part":  {strings.Replace(one, "</Part>", "<ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>", 1), "InvalidPart"},
		"another document":       {"</CompleteMultipartUpload><CompleteMultipartUpload>" + one, "MalformedXML"},
		"nothing but other text": {"parts", "MalformedXML"},
	} {
		if a := s.complete("/photos/k", id, c.parts); a.status != 400 || a.element("Code") != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.status, a.body, c.code)
		}
	}
	for _, number := range []string{"0", "10001", "-1", "1.0", "x", "", "%00", "99999999999999999999", "%ff"} {
		s.do("PUT", "/photos/k?uploadId="+id+"&partNumber="+number, hello).fails(400, "InvalidArgument")
		s.do("PUT", "/photos/k?partNumber="+number, hello).fails(400, "InvalidArgument")
	}
	for _, other := range []string{"", "x", "%00", "%ff", "..", strings.ToUpper(id) + "x", id + "%00", strings.Repeat("a", 5000), "00000000-0000-0000-0000-000000000000"} {
		for method, body := range map[string]string{"PUT": hello, "GET": "", "DELETE": "", "POST": "<CompleteMultipartUpload>" + one + "</CompleteMultipartUpload>"} {
			s.do(method, "/photos/k?partNumber=1&uploadId="+other, body).fails(404, "NoSuchUpload")
		}
	}
	s.do("PUT", "/photos/other?partNumber=1&uploadId="+id, hello).fails(404, "NoSuchUpload")
	s.complete("/photos/other", id, one).fails(404, "NoSuchUpload")
	s.as(s.other, "PUT", "/photos", "").want(200)
	s.as(s.other, "PUT", "/photos/k?partNumber=1&uploadId="+id, hello).fails(404, "NoSuchUpload")
	for _, target := range []string{"max-parts=-1", "max-parts=x", "part-number-marker=-1", "part-number-marker=x", "max-parts=99999999999999999999"} {
		s.do("GET", "/photos/k?uploadId="+id+"&"+target, "").fails(400, "InvalidArgument")
	}
	s.do("GET", "/photos/k", "").fails(404, "NoSuchKey")
	s.complete("/photos/k", id, one+three).want(200)
	s.do("GET", "/photos/k", "").is("0123456789last")
}

func TestHostileXML(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/kept", hello, "x-amz-tagging: a=1").want(200)
	s.do("PUT", "/photos?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>").want(204)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	owner := s.do("GET", "/photos?acl", "").element("ID")
	const cors = "<CORSConfiguration><CORSRule><AllowedOrigin>https://app.test</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
	s.do("PUT", "/photos?cors", cors).want(200)
	id := s.upload("/photos/m")
	part := s.part("/photos/m", id, "1", hello)
	for target, c := range map[string]struct{ right, twice, code string }{ // twice repeats an element that must be unique
		"POST /photos?delete":           {"<Delete><Object><Key>kept</Key></Object></Delete>", "<Key>kept</Key>", "MalformedXML"},
		"PUT /photos/kept?tagging":      {"<Tagging><TagSet></TagSet></Tagging>", "<TagSet></TagSet>", "MalformedXML"},
		"PUT /photos?tagging":           {"<Tagging><TagSet></TagSet></Tagging>", "<TagSet></TagSet>", "MalformedXML"},
		"PUT /photos?cors":              {strings.ReplaceAll(cors, "GET", "PUT"), "", "MalformedXML"},
		"PUT /photos?acl":               {"<AccessControlPolicy><AccessControlList><Grant><Grantee><ID>" + owner + "</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>", "<Permission>FULL_CONTROL</Permission>", "MalformedACLError"},
		"PUT /fresh":                    {"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>", "<LocationConstraint>us-east-1</LocationConstraint>", "MalformedXML"},
		"POST /photos/m?uploadId=" + id: {"<CompleteMultipartUpload>" + part + "</CompleteMultipartUpload>", "<PartNumber>1</PartNumber>", "MalformedXML"},
	} {
		method, path, _ := strings.Cut(target, " ")
		root := c.right[1:strings.IndexByte(c.right, '>')]
		inside := func(text string) string { return strings.Replace(c.right, "<"+root+">", "<"+root+">"+text, 1) }
		for name, document := range map[string]string{
			"text after it":      c.right + "x",
			"two documents":      c.right + c.right,
			"text before it":     "x" + c.right,
			"another root":       strings.ReplaceAll(c.right, root, "Other"),
			"a part of it":       "<Other>" + c.right + "</Other>",
			"cut":                c.right[:len(c.right)-1],
			"document type":      "<!DOCTYPE " + root + ">" + c.right,
			"external entity":    `<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>` + inside("<a>&e;</a>"),
			"billion laughs":     `<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>` + inside("<a>&c;</a>"),
			"entity":             inside("<a>&e;</a>"),
			"deep":               inside(strings.Repeat("<a>", 20) + strings.Repeat("</a>", 20)),
			"very deep":          inside(strings.Repeat("<a>", 20000)),
			"many attributes":    inside("<a" + strings.Repeat(` b=""`, 10000) + "/>"),
			"huge attribute":     inside(`<a b="` + strings.Repeat("b", 50000) + `"/>`),
			"many other members": inside("<a0/><a1/><a2/><a3/><a4/><a5/><a6/><a7/><a8/><a9/><b0/><b1/><b2/><b3/><b4/><b5/><b6/>"),
			"twice":              strings.Replace(c.right, c.twice, c.twice+c.twice, 1),
			"text among members": inside("text"),
			"UTF-16":             utf16(c.right),
			"another encoding":   `<?xml version="1.0" encoding="ISO-8859-1"?>` + c.right,
			"control character":  inside("<a>\x01</a>"),
			"its reference":      inside("<a>&#1;</a>"),
			"not UTF-8":          inside("<a>\xff</a>"),
			"JSON":               `{"Key": "kept"}`,
		} {
			if name == "twice" && c.twice == "" {
				continue
			}
			if a := s.do(method, path, document); a.status != 400 || a.element("Code") != c.code {
				t.Errorf("%s, %s: %d %s, want 400 %s", target, name, a.status, a.body, c.code)
			}
		}
	}
	s.do("HEAD", "/photos/kept", "").want(200).head("X-Amz-Tagging-Count: 1")
	s.do("GET", "/photos?tagging", "").has("<Key>a</Key>")
	s.do("GET", "/photos?acl", "").has("AllUsers")
	s.do("GET", "/photos?cors", "").has("<AllowedMethod>GET<").hasNot("PUT")
	s.do("GET", "/fresh", "").fails(404, "NoSuchBucket")
	s.do("HEAD", "/photos/m", "").want(404)

	// Some clients send a byte order mark, comments or prefixes.
	s.do("POST", "/photos?delete", "\ufeff<?xml version=\"1.0\"?>\n<!-- a --><a:Delete xmlns:a=\"http://s3.amazonaws.com/doc/2006-03-01/\"><a:Object><a:Key>other</a:Key></a:Object></a:Delete>\n").
		want(200).has("<Deleted><Key>other</Key>")
	// These conditions are for versions and other kinds of buckets.
	for _, condition := range []string{"<Size>1</Size>", "<LastModifiedTime/>"} {
		s.do("POST", "/photos?delete", "<Delete><Object><Key>kept</Key></Object><Object><Key>a</Key>"+condition+"</Object></Delete>").fails(501, "NotImplemented")
	}
	for _, c := range []struct{ condition, code string }{{"<VersionId>x</VersionId>", "NoSuchVersion"}, {"<ETag>x</ETag>", "PreconditionFailed"}} {
		s.do("POST", "/photos?delete", "<Delete><Object><Key>kept</Key>"+c.condition+"</Object></Delete>").want(200).has("<Code>" + c.code + "</Code>")
	}
	s.do("DELETE", "/photos/kept", "", "x-amz-if-match-size: 1").fails(501, "NotImplemented")
	s.do("HEAD", "/photos/kept", "").want(200)
	s.do("PUT", "/photos?acl", "<AccessControlPolicy/>", "x-amz-acl: private").fails(400, "UnexpectedContent")
}

func utf16(s string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for i := range len(s) {
		b.WriteString(string(s[i]) + "\x00")
	}
	return b.String()
}

//nolint:paralleltest // it counts the allocations of the process
func TestMemoryOfXML(t *testing.T) {
	s := withBucket(t)
	const size = 2<<20 - 100
	for name, unit := range map[string]string{"elements": "<a/>", "named": "<abcdefgh1/>", "depth": "<a>", "attributes": ` a=""`, "namespaces": ` xmlns:a="b"`, "text": "aaaa", "comments": "<!---->", "objects": "<Object/>", "entities": "&lt;"} {
		open, end := "<Delete>", "</Delete>"
		if strings.Contains(unit, "=") {
			open, end = "<Delete", "/>"
		}
		document := open + strings.Repeat(unit, (size-len(open)-len(end))/len(unit)) + end
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := s.do("POST", "/photos?delete", document)
		runtime.ReadMemStats(&after)
		if a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 40 {
			t.Errorf("%s: %d MB allocated for a document of 2 MB", name, n)
		}
	}
}

func TestHostileCORS(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	rule := func(s string) string { return "<CORSRule>" + s + "</CORSRule>" }
	configuration := func(s string) string { return "<CORSConfiguration>" + s + "</CORSConfiguration>" }
	const right = "<AllowedOrigin>https://*.app.test</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-*</AllowedHeader>"
	for document, code := range map[string]string{
		configuration(""): "MalformedXML", configuration(strings.Repeat(rule(right), 101)): "MalformedXML", configuration(rule("<AllowedMethod>GET</AllowedMethod>")): "MalformedXML",
		configuration(rule(right + "<AllowedMethod>get</AllowedMethod>")): "InvalidRequest", configuration(rule(right + "<AllowedMethod>OPTIONS</AllowedMethod>")): "InvalidRequest", configuration(rule(right + "<AllowedMethod>*</AllowedMethod>")): "InvalidRequest",
		configuration(rule(right + "<AllowedOrigin>*.*</AllowedOrigin>")): "InvalidRequest", configuration(rule(right + "<AllowedHeader>*-*</AllowedHeader>")): "InvalidRequest", configuration(rule(right + "<AllowedOrigin>a&#10;b</AllowedOrigin>")): "MalformedXML",
		configuration(rule(right + "<ExposeHeader>a b</ExposeHeader>")): "InvalidRequest", configuration(rule(right + "<ExposeHeader></ExposeHeader>")): "InvalidRequest",
		configuration(rule(right + "<MaxAgeSeconds>-1</MaxAgeSeconds>")): "MalformedXML", configuration(rule(right + "<MaxAgeSeconds>2147483648</MaxAgeSeconds>")): "MalformedXML", configuration(rule(right + "<MaxAgeSeconds>day</MaxAgeSeconds>")): "MalformedXML",
		configuration(rule(right + "<ID>" + strings.Repeat("a", 256) + "</ID>")): "MalformedXML", configuration(rule(right + "<AllowedHeader>" + strings.Repeat("a", 64<<10) + "</AllowedHeader>")): "MaxMessageLengthExceeded",
	} {
		s.do("PUT", "/photos?cors", document).fails(400, code)
	}
	s.do("GET", "/photos?cors", "").fails(404, "NoSuchCORSConfiguration")
	s.do("PUT", "/photos?cors", configuration(rule(right+"<MaxAgeSeconds>2147483647</MaxAgeSeconds>"))).want(200)
	for name, c := range map[string]struct {
		origin, method, headers string
		status                  int
	}{
		"allowed":                {"https://a.app.test", "PUT", "x-a, X-B", 200},
		"no origin":              {"", "PUT", "", 400},
		"no method":              {"https://a.app.test", "", "", 400},
		"another origin":         {"https://app.test", "PUT", "", 403},
		"the pattern":            {"https://*.app.test.evil", "PUT", "", 403},
		"null":                   {"null", "GET", "", 403},
		"in upper case":          {"https://A.APP.TEST", "GET", "", 403},
		"not ASCII":              {"https://\xff.app.test.", "GET", "", 403},
		"unknown method":         {"https://a.app.test", "BREW", "", 403},
		"method in lower case":   {"https://a.app.test", "put", "", 403},
		"another header":         {"https://a.app.test", "PUT", "x-a, authorization", 403},
		"thousands of headers":   {"https://a.app.test", "PUT", strings.Repeat("a,", 3500), 403},
		"commas":                 {"https://a.app.test", "PUT", strings.Repeat(",", 3500), 200},
		"more than 8 KiB of all": {"https://a.app.test", "PUT", strings.Repeat("x-a,", 2100), 400},
	} {
		var headers []string
		for header, value := range map[string]string{"Origin": c.origin, "Access-Control-Request-Method": c.method, "Access-Control-Request-Headers": c.headers} {
			if value != "" {
				headers = append(headers, header+": "+value)
			}
		}
		a := s.anonymous("OPTIONS", "/photos/k", "", headers...)
		if a.status != c.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, c.status)
		}
		if allowed := a.header.Get("Access-Control-Allow-Origin"); (allowed != "") != (a.status == 200) {
			t.Errorf("%s: allows %q", name, allowed)
		}
	}
	for _, target := range []string{"/", "/absent/k", "/%ff/k", "/main:absent", "/nobody:photos/k", "/Photos/k"} {
		s.anonymous("OPTIONS", target, "", "Origin: https://a.app.test", "Access-Control-Request-Method: GET").fails(403, "AccessForbidden")
	}
}

type field struct{ name, value, file string }

func (s *server) post(parts ...field) *http.Request {
	var body strings.Builder
	for _, p := range parts {
		body.WriteString("--x\r\nContent-Disposition: form-data; name=\"" + p.name + "\"")
		if p.file != "" {
			body.WriteString("; filename=\"" + p.file + "\"")
		}
		body.WriteString("\r\n\r\n" + p.value + "\r\n")
	}
	body.WriteString("--x--\r\n")
	return s.request("POST", "/photos", body.String(), "Content-Type: multipart/form-data; boundary=x")
}

func (s *server) signedForm(expires time.Duration, conditions string, fields map[string]string) []field {
	now := time.Now()
	policy := `{"expiration": "` + now.Add(expires).UTC().Format("2006-01-02T15:04:05.000Z") + `", "conditions": [{"bucket": "photos"}, ` + s.main.FormConditions(now) + conditions + `]}`
	return s.withPolicy(policy, fields, now)
}

func (s *server) withPolicy(policy string, fields map[string]string, now time.Time) (list []field) {
	all := maps.Clone(fields)
	s.main.SignForm(all, policy, now)
	for name, value := range all {
		list = append(list, field{name: name, value: value})
	}
	return append(list, field{"file", hello, "cat.jpg"})
}

func TestHostileForms(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const key = `, {"key": "k"}`
	k := map[string]string{"key": "k"}
	with := func(name, value string) map[string]string { return map[string]string{"key": "k", name: value} }
	without := func(name string) []field {
		all := s.signedForm(time.Hour, key, k)
		for i := range all {
			if all[i].name == name {
				return append(all[:i], all[i+1:]...)
			}
		}
		return all
	}
	insert := func(parts ...field) []field { return append(parts, s.signedForm(time.Hour, key, k)...) }
	for name, c := range map[string]struct {
		parts  []field
		status int
		code   string
	}{
		"expired":                 {s.signedForm(-time.Second, key, k), 403, "AccessDenied"},
		"another value":           {s.signedForm(time.Hour, `, {"key": "other"}`, k), 403, "AccessDenied"},
		"another prefix":          {s.signedForm(time.Hour, `, ["starts-with", "$key", "user/"]`, k), 403, "AccessDenied"},
		"another bucket":          {s.signedForm(time.Hour, key+`, {"bucket": "other"}`, k), 403, "AccessDenied"},
		"no condition":            {s.signedForm(time.Hour, "", k), 403, "AccessDenied"},
		"a field of no condition": {s.signedForm(time.Hour, key, with("x-amz-meta-a", "b")), 403, "AccessDenied"},
		"a required field":        {s.signedForm(time.Hour, key+`, {"acl": "private"}`, k), 403, "AccessDenied"},
		"unknown condition":       {s.signedForm(time.Hour, key+`, ["ends-with", "$key", "k"]`, k), 400, "InvalidPolicyDocument"},
		"negative range":          {s.signedForm(time.Hour, key+`, ["content-length-range", -1, 10]`, k), 400, "InvalidPolicyDocument"},
		"policy is not JSON":      {s.withPolicy("policy", k, time.Now()), 400, "InvalidPolicyDocument"},
		"deep policy":             {s.withPolicy(strings.Repeat("[", 10000), k, time.Now()), 400, "InvalidPolicyDocument"},
		"policy of year 10000":    {s.withPolicy(`{"expiration": "10000-01-01T00:00:00Z", "conditions": []}`, k, time.Now()), 400, "InvalidPolicyDocument"},
		"no policy":               {without("policy"), 400, "InvalidPolicyDocument"},
		"no signature":            {without("x-amz-signature"), 400, "AuthorizationHeaderMalformed"},
		"no credential":           {without("x-amz-credential"), 400, "AuthorizationHeaderMalformed"},
		"no algorithm":            {without("x-amz-algorithm"), 400, "InvalidRequest"},
		"no date":                 {without("x-amz-date"), 403, "AccessDenied"},
		"no key":                  {without("key"), 400, "UserKeyMustBeSpecified"},
		"no file":                 {without("file"), 400, "InvalidArgument"},
		"a field twice":           {insert(field{name: "key", value: "k"}), 400, "InvalidArgument"},
		"a field in both cases":   {insert(field{name: "KEY", value: "k"}), 400, "InvalidArgument"},
		"policy twice":            {insert(field{name: "policy", value: "e30="}), 400, "InvalidArgument"},
		"the file comes first":    {insert(field{"file", hello, "a"}), 403, "AccessDenied"},
		"a huge field":            {insert(field{name: "x-ignore-a", value: strings.Repeat("a", 30<<10)}), 400, "MaxPostPreDataLengthExceeded"},
		"a huge name":             {insert(field{name: strings.Repeat("a", 200<<10)}), 400, "MaxPostPreDataLengthExceeded"},
		"a name of 5 MB":          {insert(field{name: strings.Repeat("a", 5<<20)}), 400, "MaxPostPreDataLengthExceeded"},
		"101 fields":              {insert(manyFields(101)...), 400, "MalformedPOSTRequest"},
		"a field without a name":  {insert(field{}), 403, "AccessDenied"},
		"key of NUL":              {s.signedForm(time.Hour, `, ["starts-with", "$key", ""]`, map[string]string{"key": "a\x00"}), 400, "InvalidArgument"},
		"key that is not UTF-8":   {s.signedForm(time.Hour, `, ["starts-with", "$key", ""]`, map[string]string{"key": "\xff"}), 400, "InvalidArgument"},
		"encryption":              {s.signedForm(time.Hour, key+`, {"x-amz-server-side-encryption": "AES256"}`, with("x-amz-server-side-encryption", "AES256")), 501, "NotImplemented"},
		"name of metadata":        {s.signedForm(time.Hour, key+`, {"x-amz-meta-a b": ""}`, with("x-amz-meta-a b", "")), 400, "InvalidArgument"},
		"metadata without a name": {s.signedForm(time.Hour, key+`, {"x-amz-meta-": ""}`, with("x-amz-meta-", "")), 400, "InvalidArgument"},
		"metadata of 3 KB":        {s.signedForm(time.Hour, key+`, ["starts-with", "$x-amz-meta-a", ""]`, with("x-amz-meta-a", strings.Repeat("a", 3000))), 400, "MetadataTooLarge"},
		"wrong checksum":          {s.signedForm(time.Hour, key+`, {"x-amz-checksum-crc32": "AAAAAA=="}`, with("x-amz-checksum-crc32", "AAAAAA==")), 400, "BadDigest"},
		"tags are not XML":        {s.signedForm(time.Hour, key+`, {"tagging": "a=b"}`, with("tagging", "a=b")), 400, "MalformedXML"},
	} {
		if a := s.send(s.post(c.parts...)); a.status != c.status || a.element("Code") != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, a.status, a.body, c.status, c.code)
		} else {
			a.fails(c.status, c.code)
		}
	}
	for _, c := range []struct{ kind, body, code string }{
		{"multipart/form-data", "", "MalformedPOSTRequest"}, {"multipart/form-data; boundary=x", "", "InvalidArgument"}, {"multipart/form-data; boundary=x", "no boundary", "InvalidArgument"}, {"multipart/form-data; boundary=" + strings.Repeat("x", 3000), "--x\r\n", "InvalidArgument"},
		{"multipart/form-data; boundary=x", strings.Repeat("preamble\r\n", 20000), "MaxPostPreDataLengthExceeded"}, {"multipart/form-data; boundary=x", "--x\r\n" + strings.Repeat("A: b\r\n", 20000), "MalformedPOSTRequest"}, {"multipart/form-data; boundary=x", "--x\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 200), "MaxPostPreDataLengthExceeded"},
		{"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk", "MalformedPOSTRequest"},
	} {
		a := s.anonymous("POST", "/photos", c.body, "Content-Type: "+c.kind)
		if got := a.element("Code"); a.status != 400 || got != c.code {
			t.Errorf("%.60s, %.20q: %d %s, want %s", c.kind, c.body, a.status, got, c.code)
		}
	}
	r := s.post(s.signedForm(time.Hour, key, k)...)
	r = s.request("POST", "/photos", strings.TrimSuffix(bodyOf(t, r), "\r\n--x--\r\n"), "Content-Type: multipart/form-data; boundary=x")
	s.send(r).fails(400, "IncompleteBody")
	s.nothing("k")
}

// TestIgnoredInForms checks that fields after the file, invalid redirects and the file's folder are ignored.
func TestIgnoredInForms(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const key = `, {"key": "k"}`
	k := map[string]string{"key": "k"}
	parts := append(s.signedForm(time.Hour, key, k), field{name: "key", value: "other"}, field{"file", "another", "b"})
	s.send(s.post(parts...)).want(204)
	s.do("GET", "/photos/k", "").is(hello)
	for _, to := range []string{"javascript:alert(1)", "https://a.test/\r\nSet-Cookie: a=b", "//a.test", "%zz"} {
		conditions := key + `, ["starts-with", "$success_action_redirect", ""]`
		s.send(s.post(s.signedForm(time.Hour, conditions, map[string]string{"key": "k", "success_action_redirect": to})...)).want(204).head("Set-Cookie:", "Location: "+s.url+"/photos/k")
	}
	file := s.signedForm(time.Hour, `, ["starts-with", "$key", ""]`, map[string]string{"key": "up/${filename}"})
	file[len(file)-1].file = "../../etc/passwd"
	s.send(s.post(file...)).want(204)
	s.do("GET", "/photos/up/passwd", "").is(hello)
}

func manyFields(n int) (list []field) {
	for i := range n {
		list = append(list, field{name: "x-ignore-" + strings.Repeat("a", i)})
	}
	return list
}

func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
