package sigv4

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strconv"
	"strings"

	"holdfast/internal/checksum"
)

// maxChunkLine limits a framing line: 16 digits, ";chunk-signature=", 64 digits and CRLF are 99 bytes, and a SHA-256
// trailer is 68.
const maxChunkLine = 128

const (
	emptySHA256    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	chunkSignature = ";chunk-signature="
	labelChunk     = "AWS4-HMAC-SHA256-PAYLOAD"
	labelTrailer   = "AWS4-HMAC-SHA256-TRAILER"
)

// chunkReader removes the framing of a chunked body. A chunk is its length in hexadecimal, ";chunk-signature=…" if
// chunks are signed, CRLF, the data and CRLF; the last chunk is empty. A chunk's signature is verified when its data
// ends, because a chunk may not fit in memory. Only then are the last bytes of the chunk returned.
type chunkReader struct {
	r        *bufio.Reader
	declared declared
	chain    *chain    // nil if chunks are unsigned
	hash     hash.Hash // of the current chunk; nil if chunks are unsigned
	provided string    // signature of the current chunk
	left     int64     // bytes left in the chunk
	budget   int64     // object bytes that further chunks may announce
	maxSize  int64     // object size limit
	sums     []checksum.Checksum
	err      error
}

func newChunkReader(r io.Reader, d declared, maxSize int64) *chunkReader {
	// Large reads bypass the buffer, which only needs to hold lines.
	reader := &chunkReader{r: bufio.NewReaderSize(r, 4096), declared: d, budget: maxSize, maxSize: maxSize}
	if d.size >= 0 {
		reader.budget = d.size
	}
	if d.mode.hasSignatures() {
		reader.chain, reader.hash = &chain{claim: d.signed.claim, key: d.signed.key, previous: d.signed.claim.provided}, sha256.New()
	}
	return reader
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.next(p)
	if err != nil {
		c.err = err
		return 0, err
	}
	return n, nil
}

// next returns bytes of the current chunk, or begins the next.
func (c *chunkReader) next(p []byte) (n int, err error) {
	if c.left == 0 {
		if err := c.begin(); err != nil {
			return 0, err
		}
		if c.left == 0 {
			return 0, c.finish()
		}
	}
	n, err = c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.hash != nil {
		c.hash.Write(p[:n])
	}
	if c.left == 0 {
		return n, c.endChunk()
	}
	return n, endedEarly(err)
}

// begin reads a chunk's first line.
func (c *chunkReader) begin() error {
	line, err := c.line()
	if err != nil {
		return endedEarly(err)
	}
	line, ok := strings.CutSuffix(line, "\r\n")
	if c.chain != nil && ok {
		line, c.provided, ok = strings.Cut(line, chunkSignature)
	}
	size, err := strconv.ParseUint(line, 16, 63)
	if !ok || err != nil || len(line) > 16 {
		return refuse(MalformedChunk, "a chunk must begin with its length in hexadecimal, its signature if chunks are signed, and CRLF")
	}
	c.left = int64(size)
	if c.left > c.budget {
		if c.declared.size >= 0 {
			return wrongSize(SizeMismatch, c.declared.size, -1, "the chunks have more bytes than x-amz-decoded-content-length")
		}
		return tooLarge(c.maxSize, -1)
	}
	c.budget -= c.left
	return nil
}

func (c *chunkReader) endChunk() error {
	if err := c.crlf(); err != nil {
		return err
	}
	return c.verifyChunk()
}

func (c *chunkReader) crlf() error {
	var end [2]byte
	if _, err := io.ReadFull(c.r, end[:]); err != nil {
		return endedEarly(err)
	}
	if end != [2]byte{'\r', '\n'} {
		return refuse(MalformedChunk, "the data of a chunk must have the length that precedes it and must end with CRLF")
	}
	return nil
}

// verifyChunk verifies the signature over the chunk's data.
func (c *chunkReader) verifyChunk() error {
	if c.chain == nil {
		return nil
	}
	var sum [sha256.Size]byte
	c.hash.Sum(sum[:0])
	c.hash.Reset()
	return c.chain.verify(labelChunk, emptySHA256+"\n"+hex.EncodeToString(sum[:]), c.provided)
}

// finish reads everything after the empty chunk's line. It returns io.EOF if the body is valid.
func (c *chunkReader) finish() error {
	if err := c.verifyChunk(); err != nil {
		return err
	}
	if c.declared.mode.hasTrailer() {
		if err := c.readTrailer(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := c.crlf(); err != nil {
		return err
	}
	switch _, err := c.r.ReadByte(); err {
	case nil:
		return refuse(MalformedChunk, "the body continues after its last chunk")
	case io.EOF:
		return io.EOF
	default:
		return endedEarly(err)
	}
}

// line returns a line with its line break. It returns io.EOF only if nothing is left.
func (c *chunkReader) line() (string, error) {
	line, err := c.r.ReadSlice('\n')
	switch {
	case len(line) > maxChunkLine || err == bufio.ErrBufferFull: //nolint:errorlint // as documented
		return "", refuse(MalformedChunk, "a line between chunks is longer than %d bytes", maxChunkLine)
	case err == io.EOF && len(line) > 0:
		return "", io.ErrUnexpectedEOF
	}
	return string(line), err
}

// endedEarly replaces io.EOF by the error for a truncated body. It returns nil and this package's errors unchanged.
func endedEarly(err error) error {
	if err == nil {
		return nil
	}
	return readError(err)
}
