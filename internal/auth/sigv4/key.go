package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

const (
	algorithm   = "AWS4-HMAC-SHA256"
	terminator  = "aws4_request"
	serviceS3   = "s3"
	stampFormat = "20060102T150405Z"
	dateFormat  = "20060102"
)

// credential is the scope of a signing key.
type credential struct {
	keyID, date, region string
}

func (c credential) scope() string {
	return c.date + "/" + c.region + "/" + serviceS3 + "/" + terminator
}

// parseCredential returns an error text, because header, query and form use different error codes.
func parseCredential(text string) (c credential, problem string) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 {
		return c, "the credential must be KEY/DATE/REGION/s3/aws4_request"
	}
	c = credential{keyID: parts[0], date: parts[1], region: parts[2]}
	switch {
	case !isPlain(c.keyID, maxKeyID):
		return c, "the access key of the credential is not valid"
	case !isDate(c.date):
		return c, "the credential's date must be YYYYMMDD"
	case !isPlain(c.region, maxRegion):
		return c, "the region of the credential is not valid"
	case parts[3] != serviceS3:
		return c, "the service of the credential must be s3"
	case parts[4] != terminator:
		return c, "the credential must end with aws4_request"
	}
	return c, ""
}

// isPlain accepts visible ASCII without credential separators.
func isPlain(text string, maxLength int) bool {
	if text == "" || len(text) > maxLength {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '/' || c == ',' {
			return false
		}
	}
	return true
}

func isDate(text string) bool {
	_, err := time.Parse(dateFormat, text)
	return err == nil && len(text) == len(dateFormat)
}

// parseStamp parses x-amz-date.
func parseStamp(text string) (time.Time, bool) {
	if len(text) != len(stampFormat) {
		return time.Time{}, false
	}
	t, err := time.Parse(stampFormat, text)
	return t, err == nil
}

// signingKey derives the key for a day and a region.
func signingKey(secret string, c credential) (key [32]byte) {
	key = mac([]byte("AWS4"+secret), c.date)
	key = mac(key[:], c.region)
	key = mac(key[:], serviceS3)
	return mac(key[:], terminator)
}

func mac(key []byte, text string) (sum [32]byte) {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	m.Sum(sum[:0])
	return sum
}

func stringToSign(stamp, scope, canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	return algorithm + "\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
}

func parseSignature(text string) (sum [32]byte, ok bool) {
	if len(text) != 64 || !isLowerHex(text) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(text))
	return sum, err == nil
}

func isLowerHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
