package buckets

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// presigner makes links with a signature in the query, by AWS Signature Version 4.
type presigner struct {
	endpoint, region string
	key              newKey
}

// link returns a link for GET that needs no credentials until it expires. The query's parameters are sorted by
// name, as the signature requires.
func (p presigner) link(bucket, object string, now time.Time, expires time.Duration) string {
	_, host, _ := strings.Cut(p.endpoint, "://")
	at := now.UTC().Format("20060102T150405Z")
	scope := at[:8] + "/" + p.region + "/s3/aws4_request"
	path := "/" + escape(bucket, false) + "/" + escape(object, true)
	query := "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + url.QueryEscape(p.key.id+"/"+scope) + "&X-Amz-Date=" + at +
		"&X-Amz-Expires=" + strconv.FormatInt(int64(expires/time.Second), 10) + "&X-Amz-SignedHeaders=host"
	request := sha256.Sum256([]byte("GET\n" + path + "\n" + query + "\nhost:" + host + "\n\nhost\nUNSIGNED-PAYLOAD"))
	signing := []byte("AWS4" + p.key.secret)
	for part := range strings.SplitSeq(scope, "/") {
		signing = sign(signing, part)
	}
	signature := sign(signing, "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+hex.EncodeToString(request[:]))
	return p.endpoint + path + "?" + query + "&X-Amz-Signature=" + hex.EncodeToString(signature)
}

// sign is a step in the key derivation.
func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// escape escapes all characters except letters, digits and -_.~, as signatures require.
func escape(s string, keepsSlash bool) string {
	s = strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	if keepsSlash {
		s = strings.ReplaceAll(s, "%2F", "/")
	}
	return s
}
