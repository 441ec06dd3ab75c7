package sigv4

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/checksum"
)

// These are the values of x-amz-content-sha256 other than a SHA-256. parsePayload maps them to modes.
const (
	UnsignedPayload       = "UNSIGNED-PAYLOAD"
	signedChunks          = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	signedChunksTrailer   = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	unsignedChunksTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	streaming             = "STREAMING-" // begins all modes with chunks
)

// mode says how the signature protects the body.
type mode uint8

const (
	modeUnsigned       mode = iota // UNSIGNED-PAYLOAD: the signature does not cover the body
	modeHash                       // the signature covers the SHA-256 of the whole body
	modeChunks                     // each chunk has a signature, which also covers the previous signature
	modeChunksTrailer              // like modeChunks; checksums and their signature follow in a trailer
	modeUnsignedChunks             // chunks and a trailer without signatures; only the checksums protect the body
)

func (m mode) hasSignatures() bool { return m == modeChunks || m == modeChunksTrailer }
func (m mode) isChunked() bool     { return m >= modeChunks }
func (m mode) hasTrailer() bool    { return m >= modeChunksTrailer }

// payload is x-amz-content-sha256.
type payload struct {
	mode mode
	hash string // modeHash only, hexadecimal
}

func parsePayload(value string) (payload, error) {
	switch value {
	case UnsignedPayload:
		return payload{mode: modeUnsigned}, nil
	case signedChunks:
		return payload{mode: modeChunks}, nil
	case signedChunksTrailer:
		return payload{mode: modeChunksTrailer}, nil
	case unsignedChunksTrailer:
		return payload{mode: modeUnsignedChunks}, nil
	}
	if strings.HasPrefix(value, streaming) {
		return payload{}, refuse(Unsupported, "this payload mode of x-amz-content-sha256 is not supported: use %s, %s or %s", signedChunks, signedChunksTrailer, unsignedChunksTrailer)
	}
	if len(value) != 64 || !isLowerHex(value) {
		return payload{}, refuse(InvalidPayloadHash, "x-amz-content-sha256 must be %s, a STREAMING- mode or a SHA-256 in lower-case hexadecimal", UnsignedPayload)
	}
	return payload{mode: modeHash, hash: value}, nil
}

// parseSignedPayload also refuses a presigned URL whose body is in signed chunks.
func parseSignedPayload(value string, presigned bool) (payload, error) {
	p, err := parsePayload(value)
	if err == nil && presigned && p.mode.hasSignatures() {
		err = refuse(Unsupported, "a presigned URL cannot have a body in signed chunks")
	}
	return p, err
}

// declared is everything that a request declares about its body.
type declared struct {
	Coding
	md5  string              // 16 bytes, or ""
	sums []checksum.Checksum // checksums in the header
}

// declare parses Content-MD5 and the checksum headers. See BodyOptions.IgnoreChecksums.
func (c Coding) declare(ignoreChecksums bool) (d declared, err error) {
	d.Coding = c
	if d.md5, err = parseMD5(c.request.Header); err != nil || ignoreChecksums {
		return d, err
	}
	if d.sums, err = parseChecksums(c.request.Header); err != nil {
		return d, err
	}
	return d, d.checkAlgorithm(c.request.Header)
}

// checkAlgorithm allows only one checksum. If x-amz-sdk-checksum-algorithm is present, a checksum with that algorithm is
// required.
func (d *declared) checkAlgorithm(h http.Header) error {
	list := slices.Clone(d.trailers)
	for _, c := range d.sums {
		list = append(list, c.Algorithm)
	}
	if len(list) > 1 {
		return refuse(InvalidChecksum, "expected a single x-amz-checksum-* header or trailer: several checksums are not allowed")
	}
	name, present, _ := single(h, "X-Amz-Sdk-Checksum-Algorithm")
	switch a, ok := checksum.ParseAlgorithm(name); {
	case !present:
	case !ok || len(list) > 0 && list[0] != a:
		return refuse(InvalidChecksum, "the value of the x-amz-sdk-checksum-algorithm header is invalid")
	case len(list) == 0:
		return refuse(InvalidChecksum, "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found")
	}
	return nil
}

func parseMD5(h http.Header) (string, error) {
	value, present, ok := single(h, "Content-Md5")
	if !present {
		return "", nil
	}
	if sum, valid := checksum.Decode(value, 16); ok && valid {
		return string(sum), nil
	}
	return "", refuse(InvalidMD5, "Content-MD5 must be the base64 of 16 bytes")
}

const checksumPrefix = "x-amz-checksum-"

// parseChecksums refuses unknown algorithms in x-amz-checksum-* headers, because the client relies on verification.
func parseChecksums(h http.Header) (sums []checksum.Checksum, err error) {
	for name := range h {
		suffix, ok := strings.CutPrefix(strings.ToLower(name), checksumPrefix)
		if !ok || suffix == "algorithm" || suffix == "type" || suffix == "mode" {
			continue
		}
		a, ok := checksum.ParseAlgorithm(suffix)
		if !ok {
			return nil, refuse(InvalidChecksum, "the checksum algorithm is not supported: use CRC32, CRC32C, CRC64NVME, SHA1 or SHA256")
		}
		value, _, ok := single(h, name)
		sum, valid := checksum.Parse(a, value)
		if !ok || !valid {
			return nil, refuse(InvalidChecksum, "%s must be the base64 of %s", a.Header(), bytesOf(a.Size()))
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

func bytesOf(n int) string { return strconv.Itoa(n) + " bytes" }

// parseTrailerNames parses x-amz-trailer, in which S3 allows only checksums.
func parseTrailerNames(h http.Header) (list []checksum.Algorithm, err error) {
	var seen [checksum.NumAlgorithms]bool
	for _, value := range h["X-Amz-Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			suffix, ok := strings.CutPrefix(strings.ToLower(strings.Trim(name, " \t")), checksumPrefix)
			a, known := checksum.ParseAlgorithm(suffix)
			if !ok || !known || seen[a] {
				return nil, refuse(InvalidChecksum, "x-amz-trailer must name x-amz-checksum-crc32, -crc32c, -crc64nvme, -sha1 or -sha256, each once")
			}
			seen[a] = true
			list = append(list, a)
		}
	}
	return list, nil
}
