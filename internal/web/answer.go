package web

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"

	"holdfast/internal/errcode"
)

// SendJSON writes a complete response. It ignores write errors, because the request was processed even if the client
// disconnected.
func SendJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// SendJSONLine is like SendJSON, but adds a newline, for people using curl.
func SendJSONLine(w http.ResponseWriter, status int, body []byte) {
	if bytes.HasSuffix(body, newline) {
		SendJSON(w, status, body)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+len(newline)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	_, _ = w.Write(newline) // not appended, which could copy a large body
}

// newline ends the answers for people.
var newline = []byte("\n")

// File is a file for SendFile.
type File struct {
	Name   string                // file name for the browser, without a folder
	Type   string                // content type
	Inline bool                  // shown by the browser, without scripts
	Size   int64                 // 0 if unknown
	Write  func(io.Writer) error // writes the body; not called for HEAD. An error before the first byte gets a normal error response
}

// SendFile sends a file, which browsers download unless it is inline: HTML or SVG may contain scripts. Errors after the
// first byte cut the connection.
func SendFile(w http.ResponseWriter, r *http.Request, sent *File) error {
	disposition := "attachment"
	if sent.Inline {
		disposition = "inline"
	}
	f := &fileWriter{response: w, begin: func() {
		h := w.Header()
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Type", sent.Type)
		h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": sent.Name}))
		if sent.Size > 0 {
			h.Set("Content-Length", strconv.FormatInt(sent.Size, 10))
		}
		w.WriteHeader(http.StatusOK)
	}}
	if r.Method != http.MethodHead {
		if err := sent.Write(f); err != nil {
			return err
		}
	}
	f.start()
	return nil
}

// fileWriter sends the header with the first byte, so that an error before it can still be answered.
type fileWriter struct {
	response http.ResponseWriter
	begin    func() // nil once the header is written
}

// start sends the header once.
func (f *fileWriter) start() {
	if f.begin != nil {
		f.begin()
		f.begin = nil
	}
}

func (f *fileWriter) Write(p []byte) (int, error) {
	f.start()
	return f.response.Write(p)
}

// BodyErrors are a protocol's errors for unreadable bodies. A nil field stands for the error of package net/http, which has
// no errcode.
type BodyErrors struct {
	Announced error // Content-Length is above the limit; nothing was read
	TooLarge  error // the body is above the limit, without or despite a Content-Length
	TooSlow   error // below the listener's minimum rate
	Cut       error // ended early, or malformed HTTP
}

// Of returns the error for a failed body read. Errors that already have a code pass unchanged, e.g. a hash mismatch.
func (e *BodyErrors) Of(err error) error {
	if _, coded := errors.AsType[errcode.Coder](err); coded {
		return err
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return cmp.Or(e.TooLarge, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return cmp.Or(e.TooSlow, err)
	}
	return cmp.Or(e.Cut, err)
}

// Read converts errors of body except io.EOF.
func (e *BodyErrors) Read(body io.Reader, p []byte) (int, error) {
	n, err := body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = e.Of(err)
	}
	return n, err
}

const (
	// unchargedBytes is the size up to which a body or response is free. A connection itself uses 20 KB.
	unchargedBytes = 4 << 10

	// firstBytes is the size of the first buffer. A full buffer grows by bodyGrowth, so that announcing a large body
	// without sending it uses little of the budget.
	firstBytes = 64 << 10
	bodyGrowth = 4
)

// ReadBody reads a request body up to limit bytes, always to EOF, where signatures are verified and truncation is
// detected. Buffers above 4 KiB are charged as the body arrives. The error comes from e, which must not be nil, or
// ChargeMemory. With an error, no part of the body is returned. The result belongs to the caller; it is empty, not nil, for
// an empty body.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, e *BodyErrors) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, cmp.Or(e.Announced, error(&http.MaxBytesError{Limit: limit}))
	}
	expected := limit
	if r.ContentLength >= 0 {
		expected = r.ContentLength
	}
	expected += bytes.MinRead // space for the read that returns EOF
	size := min(expected, unchargedBytes)
	if r.ContentLength > unchargedBytes-bytes.MinRead {
		size = min(expected, firstBytes)
		if err := ChargeMemory(r, size); err != nil {
			return nil, err
		}
	}
	b := make([]byte, 0, size)
	body := http.MaxBytesReader(w, r.Body, limit)
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, e.Of(err)
		}
		if len(b) < cap(b) {
			continue
		}
		size = min(expected, max(int64(cap(b))*bodyGrowth, firstBytes))
		if err := ChargeMemory(r, size-int64(cap(b))); err != nil {
			return nil, err
		}
		b = append(make([]byte, 0, size), b...)
	}
}
