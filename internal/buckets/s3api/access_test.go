//test:unraced the race detector makes it ten times as slow

package s3api_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

func TestBucketsOfOthersAreHidden(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	for _, target := range []string{"/main:photos", "/main:absent", "/absent:photos", "/main:photos/k", "/main:absent/k", "/main:photos?location", "/main:absent?location", "/absent%00:x/k", "/main:x%ff/k"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			if strings.HasSuffix(target, "?location") {
				method = "GET"
			}
			s.as(s.other, method, target, "").fails(403, "AccessDenied")
			s.anonymous(method, target, "").fails(403, "AccessDenied")
		}
	}
	for _, target := range []string{"/photos", "/absent", "/photos/k", "/absent/k", "/%ff%00/k"} {
		s.anonymous("GET", target, "").fails(403, "AccessDenied")
		if !strings.Contains(target, "%") {
			s.as(s.other, "GET", target, "").fails(404, "NoSuchBucket")
		}
	}
	s.as(s.other, "PUT", "/photos/k", hello, "x-amz-copy-source: main:photos/k").fails(404, "NoSuchBucket")
	s.as(s.other, "PUT", "/mine", "").want(200)
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: main:photos/k").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: main:absent/k").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: photos/k").fails(404, "NoSuchBucket")
	s.do("GET", "/main:photos/k", "").want(200).is(hello)
	s.do("GET", "/main:absent/k", "").fails(404, "NoSuchBucket")
	s.anonymous("GET", "/", "").fails(403, "AccessDenied")
	s.anonymous("PUT", "/fresh", "").fails(403, "AccessDenied")
	s.do("GET", "/", "").want(200).has("<Name>photos</Name>").hasNot("mine")
}

func TestPublicRead(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/a/k", hello).want(200)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.do("GET", "/photos?acl", "").has("AllUsers", "<Permission>READ<")
	s.do("PUT", "/photos/a/k", hello, "x-amz-acl: public-read").want(200)
	for _, prefix := range []string{"/photos", "/main:photos"} {
		s.anonymous("GET", prefix+"/a/k", "").want(200).is(hello)
		s.anonymous("HEAD", prefix+"/a/k", "").want(200).head("Content-Length: 20")
		s.anonymous("HEAD", prefix, "").want(200)
		s.anonymous("GET", prefix+"?list-type=2&fetch-owner=true", "").want(200).has("<Key>a/k<").hasNot("DisplayName")
		s.anonymous("GET", prefix+"/absent", "").fails(404, "NoSuchKey")
		s.anonymous("PUT", prefix+"/k", hello).fails(403, "AccessDenied")
		s.anonymous("DELETE", prefix+"/a/k", "").fails(403, "AccessDenied")
		s.anonymous("GET", prefix+"?acl", "").fails(403, "AccessDenied")
		s.anonymous("POST", prefix+"?delete", "<Delete><Object><Key>a/k</Key></Object></Delete>").fails(403, "AccessDenied")
		s.anonymous("GET", prefix+"/a/k?response-content-type=text/html", "").fails(400, "InvalidRequest")
	}
	for _, host := range []string{"photos.s3.test", "photos.main.s3.test", "PHOTOS.S3.test:9000"} {
		s.anonymous("GET", "/a/k", "", "Host: "+host).want(200).is(hello)
		s.anonymous("GET", "/", "", "Host: "+host).want(200).has("<Key>a/k<")
	}
	s.anonymous("GET", "/a/k", "", "Host: photos.other.s3.test").fails(403, "AccessDenied")
	s.as(s.other, "GET", "/main:photos/a/k", "").want(200).is(hello)
	s.as(s.other, "PUT", "/main:photos/a/k", "x").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/mine", "").want(200)
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: main:photos/a/k").want(200)
	s.do("GET", "/k", "", "Host: mine.s3.test").fails(404, "NoSuchBucket")
	s.as(s.other, "GET", "/k", "", "Host: mine.s3.test").want(200).is(hello)

	s.as(s.other, "PUT", "/photos", "").want(200) // changes nothing for others
	s.anonymous("GET", "/photos/a/k", "").want(200)
	s.anonymous("GET", "/main:photos/a/k", "").want(200)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: private").want(200)
	s.anonymous("GET", "/main:photos/a/k", "").fails(403, "AccessDenied")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read-write").fails(501, "NotImplemented")
	s.do("PUT", "/photos?acl", "", "x-amz-grant-read: uri=x").fails(501, "NotImplemented")
	s.do("PUT", "/photos?acl", "").fails(400, "MissingSecurityHeader")
}

func TestCORS(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello)
	preflight := []string{"Origin: https://app.test", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: Content-Type, X-Amz-Meta-A"}
	s.anonymous("OPTIONS", "/main:photos/k", "", preflight...).fails(403, "AccessForbidden")
	s.anonymous("OPTIONS", "/main:absent/k", "", preflight...).fails(403, "AccessForbidden")
	s.anonymous("OPTIONS", "/main:photos/k", "").fails(400, "BadRequest")
	rule := func(s string) string { return "<CORSConfiguration><CORSRule>" + s + "</CORSRule></CORSConfiguration>" }
	for _, bad := range []string{
		"", "<AllowedOrigin>*</AllowedOrigin>", "<AllowedOrigin>*</AllowedOrigin><AllowedMethod>BREW</AllowedMethod>",
		"<AllowedOrigin>*.*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>",
		"<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><ExposeHeader>a&#13;&#10;Set-Cookie: b</ExposeHeader>",
	} {
		s.do("PUT", "/photos?cors", rule(bad)).want(400)
	}
	s.do("PUT", "/photos?cors", rule("<AllowedOrigin>https://*.test</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>"+
		"<AllowedHeader>content-*</AllowedHeader><AllowedHeader>x-amz-meta-a</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds>")).want(200)
	s.do("GET", "/photos?cors", "").has("<AllowedOrigin>https://*.test<", "<MaxAgeSeconds>60<")
	for _, target := range []string{"/main:photos/k", "/photos/k"} {
		s.anonymous("OPTIONS", target, "", preflight...).want(200).head("Access-Control-Allow-Origin: https://app.test", "Access-Control-Max-Age: 60",
			"Access-Control-Allow-Headers: content-type, x-amz-meta-a", "Access-Control-Expose-Headers: ETag")
	}
	s.anonymous("OPTIONS", "/k", "", append(preflight, "Host: photos.main.s3.test")...).want(200)
	s.anonymous("OPTIONS", "/main:photos/k", "", "Origin: https://evil.example", "Access-Control-Request-Method: GET").fails(403, "AccessForbidden")
	s.anonymous("OPTIONS", "/main:photos/k", "", "Origin: https://app.test", "Access-Control-Request-Method: DELETE").fails(403, "AccessForbidden")
	s.do("GET", "/photos/k", "", "Origin: https://app.test").want(200).head("Access-Control-Allow-Origin: https://app.test")
	s.do("GET", "/photos/absent", "", "Origin: https://app.test").want(404).head("Access-Control-Allow-Origin: https://app.test")
	s.do("DELETE", "/photos?cors", "").want(204)
	s.do("GET", "/photos?cors", "").fails(404, "NoSuchCORSConfiguration")
}

func TestFormUpload(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	prefix := `["starts-with", "$key", "user/"]`
	s.send(s.form(map[string]string{"key": "user/${filename}", "x-amz-meta-a": "b", "content-type": "image/jpeg", "acl": "private",
		"tagging": "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"}, hello, prefix)).want(204).
		head("Location: " + s.url + "/photos/user/cat.jpg")
	s.do("GET", "/photos/user/cat.jpg", "").is(hello).head("Content-Type: image/jpeg", "X-Amz-Meta-A: b", "X-Amz-Tagging-Count: 1")
	s.send(s.form(map[string]string{"key": "k", "success_action_status": "201"}, hello)).want(201).has("<PostResponse><Location>"+s.url+"/photos/k<", "<Key>k</Key>")
	s.send(s.form(map[string]string{"key": "k", "success_action_redirect": "https://app.test/done?a=b"}, hello)).want(303)
	s.send(s.form(map[string]string{"key": "${filename}"}, hello, prefix)).fails(403, "AccessDenied")
	s.send(s.form(map[string]string{"key": "k"}, hello, `["content-length-range", 1, 5]`)).fails(400, "EntityTooLarge")
	s.send(s.form(map[string]string{"key": "k"}, hello, `["content-length-range", 100, 200]`)).fails(400, "EntityTooSmall")
	s.send(s.form(map[string]string{"key": strings.Repeat("k", 1025)}, hello)).fails(400, "KeyTooLongError")
	s.send(s.form(map[string]string{}, hello)).fails(400, "UserKeyMustBeSpecified")
	s.send(s.form(map[string]string{"key": "k", "acl": "public-read"}, hello)).fails(400, "AccessControlListNotSupported")
	s.send(s.form(map[string]string{"key": "k", "content-md5": md5Of("x")}, hello)).fails(400, "BadDigest")
	r := s.form(map[string]string{"key": "k"}, hello)
	r.URL.Opaque = "/absent"
	s.send(r).fails(404, "NoSuchBucket")
	forged := *s
	forged.main.Secret = "guess"
	s.send(forged.form(map[string]string{"key": "k"}, hello)).fails(403, "SignatureDoesNotMatch")
	s.anonymous("POST", "/photos", "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--x--\r\n", "Content-Type: multipart/form-data; boundary=x").fails(400, "InvalidArgument")
	s.anonymous("POST", "/photos", "broken", "Content-Type: multipart/form-data; boundary=x").want(400)
	s.anonymous("POST", "/photos", "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n"+strings.Repeat("k", 30<<10)+"\r\n--x--\r\n", "Content-Type: multipart/form-data; boundary=x").fails(400, "MaxPostPreDataLengthExceeded")
}

func TestTagging(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello, "x-amz-tagging: a=1&b=two%20words").want(200)
	s.do("GET", "/photos/k?tagging", "").has("<Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value>two words</Value></Tag>")
	s.do("GET", "/photos/k", "").head("X-Amz-Tagging-Count: 2")
	s.do("PUT", "/photos/k2", "", "x-amz-copy-source: /photos/k").want(200)
	s.do("GET", "/photos/k2?tagging", "").has("two words")
	s.do("PUT", "/photos/k2", "", "x-amz-copy-source: /photos/k", "x-amz-tagging-directive: REPLACE", "x-amz-tagging: c=3").want(200)
	s.do("GET", "/photos/k2?tagging", "").has("<Key>c<").hasNot("two words")
	tag := func(k, v string) string { return "<Tag><Key>" + k + "</Key><Value>" + v + "</Value></Tag>" }
	set := func(s string) string { return "<Tagging><TagSet>" + s + "</TagSet></Tagging>" }
	s.do("PUT", "/photos/k?tagging", set(tag("x", "y"))).want(200)
	s.do("GET", "/photos/k?tagging", "").has(tag("x", "y")).hasNot("<Key>a<")
	s.do("PUT", "/photos/k?tagging", set(tag("x", "y")+tag("x", "z"))).fails(400, "InvalidTag")
	s.do("PUT", "/photos/k?tagging", set(tag(strings.Repeat("k", 129), "z"))).fails(400, "InvalidTag")
	var many string
	for c := 'a'; c <= 'k'; c++ {
		many += tag(string(c), "")
	}
	s.do("PUT", "/photos/k?tagging", set(many)).fails(400, "BadRequest")
	s.do("PUT", "/photos/absent?tagging", set(tag("x", "y"))).fails(404, "NoSuchKey")
	s.do("DELETE", "/photos/k?tagging", "").want(204)
	s.do("GET", "/photos/k?tagging", "").want(200).hasNot("<Tag>")
	s.do("PUT", "/photos?tagging", set(tag("x", "y"))).want(204)
	s.do("GET", "/photos?tagging", "").has(tag("x", "y"))
	s.do("PUT", "/photos/k", hello, "x-amz-tagging: a=1&a=2").fails(400, "InvalidArgument")
}

func TestCopies(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/backup", "").want(200)
	keys := map[string]string{"a+b": "a%2Bb", "a b": "a%20b", "100%": "100%25", "/lead": "/lead", "é/ö": "%C3%A9/%C3%B6", "q?x": "q%3Fx"}
	for key, escaped := range keys {
		s.do("PUT", "/photos/"+escaped, hello+key, "x-amz-meta-a: b", "Content-Type: text/plain").want(200)
		for _, slash := range []string{"", "/", "%2F"} {
			s.do("PUT", "/backup/"+escaped, "", "x-amz-copy-source: "+slash+"photos/"+escaped).want(200)
			s.do("GET", "/backup/"+escaped, "").is(hello+key).head("X-Amz-Meta-A: b", "Content-Type: text/plain")
		}
	}
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: photos/a+b").want(200) // a plus sign is not a space
	for source, code := range map[string]string{"photos": "InvalidArgument", "photos/": "InvalidArgument", "photos/%zz": "InvalidArgument", "/": "InvalidArgument", "photos/x?versionId=abc": "InvalidArgument"} {
		s.do("PUT", "/backup/k", "", "x-amz-copy-source: "+source).fails(400, code)
	}
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: photos/absent").fails(404, "NoSuchKey")
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: absent/k").fails(404, "NoSuchBucket")
	tag := s.do("HEAD", "/photos/lead2", "").header.Get("Etag") + s.do("HEAD", "/photos//lead", "").header.Get("Etag")
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: photos//lead", "x-amz-copy-source-if-match: "+tag).want(200)
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: photos//lead", "x-amz-copy-source-if-none-match: "+tag).fails(412, "PreconditionFailed")
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: photos//lead", "If-None-Match: *").fails(412, "PreconditionFailed")
	s.do("PUT", "/backup/k", "", "x-amz-copy-source: photos//lead", "x-amz-metadata-directive: KEEP").fails(400, "InvalidArgument")

	s.do("PUT", "/photos/k", "0123456789abcdef")
	id := s.upload("/backup/m")
	part := func(number, extent string) answer {
		return s.do("PUT", "/backup/m?uploadId="+id+"&partNumber="+number, "", "x-amz-copy-source: photos/k", "x-amz-copy-source-range: "+extent)
	}
	one := part("1", "bytes=0-9").want(200).element("ETag")
	two := part("2", "bytes=14-15").want(200).element("ETag")
	for _, bad := range []string{"bytes=0-16", "bytes=-5", "bytes=0-", "bytes=9-3", "0-5", "bytes=0-1,3-4", "bytes=99-100"} {
		part("3", bad).fails(400, "InvalidArgument")
	}
	s.complete("/backup/m", id, "<Part><PartNumber>1</PartNumber><ETag>"+one+"</ETag></Part><Part><PartNumber>2</PartNumber><ETag>"+two+"</ETag></Part>").want(200)
	s.do("GET", "/backup/m", "").is("0123456789ef")
	s.do("PUT", "/photos/whole", "", "x-amz-copy-source: backup/m").want(200).has(md5Tag("0123456789ef"))
}

func TestForgedRequests(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	r := s.request("GET", "/photos", "")
	s.main.Sign(r, sigv4test.Unsigned, time.Now().Add(-16*time.Minute))
	s.send(r).fails(403, "RequestTimeTooSkewed")
	unknown := s.main
	unknown.AccessKeyID = "HFAAAAAAAAAAAAAAAAAA"
	s.as(unknown, "GET", "/photos", "").fails(403, "InvalidAccessKeyId")
	r = s.request("GET", "/photos", "")
	s.main.Sign(r, sigv4test.Unsigned, time.Now())
	r.URL.Opaque = "/photos/k"
	s.send(r).fails(403, "SignatureDoesNotMatch").has("<Resource>/photos/k</Resource>")
}
