package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"

	"holdfast/internal/checksum"
)

const trailerSignature = "x-amz-trailer-signature"

// readTrailer reads the lines after the empty chunk: each announced checksum once and, in signed bodies, their
// signature. Line ends and empty lines differ between clients:
//
//   - Amazon's SDKs end the trailer with an empty line, Amazon's example does not.
//   - minio-go ends a checksum with LF instead of CRLF and adds an empty line. In signed bodies, the signature and an
//     empty line follow, in unsigned bodies another empty line.
func (c *chunkReader) readTrailer() error {
	var text []byte
	unsigned := c.chain != nil
	for empty := 0; ; {
		complete := len(c.sums) == len(c.declared.trailers) && !unsigned
		line, err := c.line()
		switch {
		case complete && errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.EOF): // the request is complete
			return malformedTrailer()
		case err != nil:
			return endedEarly(err)
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch {
		case line == "" && empty < 2:
			empty++
		case !ok || complete:
			return malformedTrailer()
		case name == trailerSignature && len(c.sums) == len(c.declared.trailers):
			sum := sha256.Sum256(text)
			if err := c.chain.verify(labelTrailer, hex.EncodeToString(sum[:]), value); err != nil {
				return err
			}
			unsigned = false
		default:
			if err := c.addTrailer(name, value); err != nil {
				return err
			}
			text = append(text, name+":"+value+"\n"...)
		}
	}
}

// addTrailer records an announced checksum.
func (c *chunkReader) addTrailer(name, value string) error {
	suffix, ok := strings.CutPrefix(name, checksumPrefix)
	a, known := checksum.ParseAlgorithm(suffix)
	again := slices.ContainsFunc(c.sums, func(sum checksum.Checksum) bool { return sum.Algorithm == a })
	if !ok || !known || again || !slices.Contains(c.declared.trailers, a) {
		return malformedTrailer()
	}
	sum, ok := checksum.Parse(a, value)
	if !ok {
		return refuse(InvalidChecksum, "%s must be the base64 of %s", a.Header(), bytesOf(a.Size()))
	}
	c.sums = append(c.sums, sum)
	return nil
}

func malformedTrailer() *Error {
	return refuse(MalformedTrailer, "the trailer must contain the checksum that x-amz-trailer announces, and its signature if the body is signed")
}
