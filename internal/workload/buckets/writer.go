package buckets

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"

	"holdfast/internal/workload"
)

type Object struct {
	MD5    string // hexadecimal; "": no object
	Bodies int    // on storage nodes
}

// Writer writes objects sequentially. No other client writes them.
type Writer struct {
	Bucket string
	N      int
	Sizes  *Sizes // nil: single-chunk bodies
	Random *rand.Rand

	State map[string]Object // by path
	Lost  *Write            // without an answer

	serial  int
	history map[string][]version
}

// Sizes are the bodies that writers write.
type Sizes struct {
	Large bool // several chunks
	Parts bool // several parts
}

// version became current between the clock ticks sent and acknowledged.
type version struct {
	md5                string
	sent, acknowledged int64
}

// Write changes an object. It is acknowledged once all its requests are answered.
type Write struct {
	Kind          string // put, upload, delete, or create, which the server refuses
	Path          string
	Parts         []string // the parts of an upload, or a single body
	Before, After Object
	Sent          int64 // test clock
	Refused       bool
}

func (d *Write) String() string { return d.Kind + " " + d.Path }

// Body sizes. Bodies above Inline are on storage nodes.
const (
	Inline    = 16 << 10
	FirstPart = 5 << 20 // minimum part size, except for the last part
)

// NewWriter returns a writer without objects.
func NewWriter(bucket string, n int, sizes *Sizes) *Writer {
	return &Writer{Bucket: bucket, N: n, Sizes: sizes, State: map[string]Object{}, history: map[string][]version{}}
}

// Next chooses a write. There are few keys, so most writes replace an object.
func (w *Writer) Next() *Write {
	d := &Write{Path: fmt.Sprintf("%s/w%d/%d", w.Bucket, w.N, w.Random.IntN(6))}
	d.Before = w.State[d.Path]
	d.After = d.Before
	sizes := Sizes{}
	if w.Sizes != nil {
		sizes = *w.Sizes
	}
	switch n := w.Random.IntN(20); {
	case n < 4:
		d.Kind, d.After = "delete", Object{}
		return d
	case n < 6 && d.Before.MD5 != "":
		d.Kind, d.Parts = "create", []string{"never"}
		return d
	case n < 9:
		d.Kind, d.Parts = "upload", []string{w.Body(Inline + 1 + w.Random.IntN(50_000))}
		if sizes.Parts && w.Random.IntN(6) == 0 {
			d.Parts = append([]string{w.Body(FirstPart)}, d.Parts...)
		}
	case n < 15:
		d.Kind, d.Parts = "put", []string{w.Body(w.Random.IntN(Inline))}
	case sizes.Large:
		d.Kind, d.Parts = "put", []string{w.Body(Inline + 1 + w.Random.IntN(400_000))}
	default:
		d.Kind, d.Parts = "put", []string{w.Body(Inline + 1 + w.Random.IntN(40_000))}
	}
	d.After = objectOf(d.Parts)
	return d
}

func objectOf(parts []string) (o Object) {
	for _, p := range parts {
		if len(p) > Inline {
			o.Bodies++
		}
	}
	o.MD5 = MD5(strings.Join(parts, ""))
	return o
}

func (w *Writer) Body(size int) string {
	w.serial++
	return Body(w.N, w.serial, size)
}

// Body returns a writer's numbered body.
func Body(writer, serial, size int) string {
	text := make([]byte, size)
	seed := [32]byte{byte(writer), byte(writer >> 8), byte(serial), byte(serial >> 8), byte(serial >> 16)}
	_, _ = rand.NewChaCha8(seed).Read(text)
	return string(text)
}

// MD5 returns a text's hexadecimal MD5.
func MD5(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// MD5Of returns the MD5 of the object in an answer; "" if missing.
func MD5Of(a workload.Answer) string {
	switch a.Status {
	case http.StatusOK:
		return MD5(a.Body)
	case http.StatusNotFound:
		return ""
	}
	return fmt.Sprintf("%d %s", a.Status, a.Body)
}

// Ask sends a request, and reports whether it was answered.
type Ask func(method, target, body string, headers ...string) (a workload.Answer, answered bool)

var uploadID = regexp.MustCompile(`<UploadId>(.*)</UploadId>`)

// UploadID returns the ID from CreateMultipartUpload; "" without one.
func UploadID(answer string) string {
	if match := uploadID.FindStringSubmatch(answer); match != nil {
		return match[1]
	}
	return ""
}

// Do sends a write's requests until an answer is missing.
func (d *Write) Do(ask Ask) (a workload.Answer, answered bool, err error) {
	expect := func(status int, method, target, body string, headers ...string) bool {
		if a, answered = ask(method, target, body, headers...); answered && a.Status != status {
			err = fmt.Errorf("%s: %d %s, want %d", method, a.Status, a.Body, status)
		}
		return answered && err == nil
	}
	switch d.Kind {
	case "delete":
		expect(http.StatusNoContent, http.MethodDelete, d.Path, "")
	case "create":
		expect(http.StatusPreconditionFailed, http.MethodPut, d.Path, d.Parts[0], "If-None-Match: *")
	case "put":
		if expect(http.StatusOK, http.MethodPut, d.Path, d.Parts[0]) && a.Header.Get("ETag") != `"`+d.After.MD5+`"` {
			err = fmt.Errorf("the entity tag is %s, want %s", a.Header.Get("ETag"), d.After.MD5)
		}
	case "upload":
		if !expect(http.StatusOK, http.MethodPost, d.Path+"?uploads", "") {
			break
		}
		id := UploadID(a.Body)
		if id == "" {
			return a, true, fmt.Errorf("no ID of the upload: %s", a.Body)
		}
		var list bytes.Buffer
		for i, part := range d.Parts {
			if !expect(http.StatusOK, http.MethodPut, fmt.Sprintf("%s?partNumber=%d&uploadId=%s", d.Path, i+1, id), part) {
				return a, answered, err
			}
			fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, a.Header.Get("ETag"))
		}
		expect(http.StatusOK, http.MethodPost, d.Path+"?uploadId="+id, "<CompleteMultipartUpload>"+list.String()+"</CompleteMultipartUpload>")
	}
	return a, answered, err
}

// Done records that a write happened, at the latest now.
func (w *Writer) Done(d *Write, now int64) {
	w.State[d.Path] = d.After
	w.history[d.Path] = append(w.history[d.Path], version{d.After.MD5, d.Sent, now})
}

// Found records the MD5 read after a write's answer was lost. Writes are atomic.
func (w *Writer) Found(md5 string, now int64) (done bool, err error) {
	d := w.Lost
	w.Lost = nil
	switch md5 {
	case d.After.MD5:
		w.Done(d, now)
		return true, nil
	case d.Before.MD5:
		w.State[d.Path] = d.Before
		return false, nil
	}
	return false, fmt.Errorf("%s was not answered, and there is %q", d, md5)
}

// Possible returns an object's possible MD5s between two clock ticks.
func (w *Writer) Possible(path string, begun, ended int64) []string {
	all := []string{""} // before the first write
	for _, v := range w.history[path] {
		if v.acknowledged < begun {
			all = nil
		}
		if v.sent <= ended {
			all = append(all, v.md5)
		}
	}
	if w.Lost != nil && w.Lost.Path == path {
		all = append(all, w.Lost.After.MD5)
	}
	return all
}
