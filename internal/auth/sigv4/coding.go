package sigv4

import (
	"io"
	"strconv"
	"strings"

	"holdfast/internal/checksum"
)

// awsChunked is the token in Content-Encoding for a body in chunks.
const awsChunked = "aws-chunked"

// Coding is how a request transfers its object: as it is, or in chunks, maybe with checksums in a trailer. Only the
// STREAMING- modes in x-amz-content-sha256 mean chunks.
type Coding struct {
	payload
	request  Request
	signed   *Signed              // nil if the request is anonymous
	size     int64                // object size, or -1
	trailers []checksum.Algorithm // announced in x-amz-trailer; the values follow the body
}

// Coding decides how the signed request transfers its object. The error is an *Error.
func (s *Signed) Coding() (Coding, error) {
	return s.request.coding(s.payload, s)
}

// Coding decides how an anonymous request transfers its object. The error is an *Error.
func (r Request) Coding() (Coding, error) {
	p := payload{mode: modeUnsigned}
	if value, ok := r.header("X-Amz-Content-Sha256"); ok {
		var err error
		if p, err = parsePayload(value); err != nil {
			return Coding{}, err
		}
		if p.mode.hasSignatures() {
			return Coding{}, refuse(Unsupported, "a request that is not signed cannot have a body in signed chunks")
		}
	}
	return r.coding(p, nil)
}

// IsChunked reports whether the body is in chunks.
func (c Coding) IsChunked() bool { return c.mode.isChunked() }

// IsFramed reports whether the request contains a Content-Length or Transfer-Encoding, also for an empty body.
func (c Coding) IsFramed() bool { return c.request.ContentLength < 0 || c.request.hasLength() }

// Body returns a reader for the object in a request body. It does not change c. The error is an *Error.
func (c Coding) Body(body io.Reader, o BodyOptions) (*Body, error) {
	d, err := c.declare(o.IgnoreChecksums)
	if err != nil {
		return nil, err
	}
	return newBody(d, c.request.ContentLength, body, o)
}

// coding decides from all headers together. Different layers of a client add them, and if the layers disagree, the
// server would store chunk framing as content, or verify less than the client expects. So every contradiction is an
// error. s is nil for an anonymous request.
//
// Amazon's documents show only consistent headers. S3's errors for other headers are quoted in versitygw issues: 2400
// (aws-chunked and UNSIGNED-PAYLOAD), 1656 (a length that is not a number) and 1600 (an announced trailer is absent).
func (r Request) coding(p payload, s *Signed) (Coding, error) {
	d := Coding{payload: p, request: r, signed: s, size: r.ContentLength}
	if value, ok := r.header("X-Amz-Content-Sha256"); ok {
		// A presigned URL's query may contain another value.
		if other, err := parsePayload(value); err != nil || other != p {
			return d, contradiction("x-amz-content-sha256", value, "the x-amz-content-sha256 header contradicts the request's payload mode")
		}
	}
	if p.mode == modeUnsigned && r.hasEncoding(awsChunked) {
		return d, contradiction("Content-Encoding", awsChunked, "aws-chunked needs a STREAMING- mode in x-amz-content-sha256 instead of %s", UnsignedPayload)
	}
	var err error
	switch _, announced := r.header("X-Amz-Trailer"); {
	case p.mode.hasTrailer():
		if d.trailers, err = parseTrailerNames(r.Header); err != nil {
			return d, err
		}
	case announced:
		return d, refuse(MalformedTrailer, "x-amz-trailer needs a -TRAILER mode in x-amz-content-sha256")
	}
	value, present, ok := single(r.Header, "X-Amz-Decoded-Content-Length")
	size, err := strconv.ParseUint(value, 10, 63)
	switch {
	case !present && !p.mode.isChunked():
	case !present && p.mode == modeUnsignedChunks && r.ContentLength < 0: // streams of the JavaScript SDK with Transfer-Encoding: chunked
		d.size = -1
	case !present:
		return d, refuse(MissingLength, "a body in chunks must have an x-amz-decoded-content-length header")
	case err != nil || !ok:
		return d, refuse(InvalidLength, "x-amz-decoded-content-length must be a whole number")
	case !p.mode.isChunked() && r.hasLength() && int64(size) != r.ContentLength:
		return d, contradiction("x-amz-decoded-content-length", value, "x-amz-decoded-content-length must equal Content-Length unless the body is in chunks")
	default:
		d.size = int64(size)
	}
	return d, nil
}

// hasLength reports whether the request contains a Content-Length. net/http sets ContentLength to 0 if there is neither this
// header nor Transfer-Encoding.
func (r Request) hasLength() bool { return r.ContentLength > 0 || len(r.Header["Content-Length"]) > 0 }

// contradiction refuses a header whose value contradicts others.
func contradiction(header, value, format string, args ...any) *Error {
	e := refuse(Contradiction, format, args...)
	e.Expected, e.Computed = header, value
	return e
}

// hasEncoding reports whether Content-Encoding contains a coding.
func (r Request) hasEncoding(coding string) bool {
	for _, value := range r.Header["Content-Encoding"] {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), coding) {
				return true
			}
		}
	}
	return false
}
