package blobs

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

// Driver stores bodies on one storage node. It is safe for concurrent use.
//
// Errors carry these codes:
//   - errcode.NotFound: no body at the path
//   - errcode.Invalid: wrong path, size or range
//   - errcode.Unavailable: the node does not work now. If space is lacking, the error also is ErrNotEnoughSpace.
//
// Errors from the caller's reader or context are wrapped without a code.
type Driver interface {
	// Put stores or replaces a body. If Put succeeds, the body is durable; otherwise it is invisible, even if the process
	// is killed. Unless size is -1, Put returns errcode.Invalid for a body of another size.
	Put(ctx context.Context, path string, body io.Reader, size int64) (int64, error)
	// Get reads to the end if length is -1, and shortens a range that extends beyond the end. It returns errcode.Invalid
	// for an offset beyond the end, but an empty body can be read from offset 0.
	Get(ctx context.Context, path string, offset, length int64) (Reader, error)
	// Stat returns Path, Size and Modified.
	Stat(ctx context.Context, path string) (Info, error)
	// Delete durably removes a body or temporary file. A missing body is not an error.
	Delete(ctx context.Context, path string) error
	// Copy duplicates a body without reading it, or returns errors.ErrUnsupported.
	Copy(ctx context.Context, from, to string) error
	// Walk returns files with paths above after, in byte order, including temporary files of killed processes. It may miss
	// concurrent changes, and stops after an error.
	Walk(ctx context.Context, after string) iter.Seq2[Info, error]
	// Space also serves as a health check, because it fails if the node cannot be read.
	Space(ctx context.Context) (Space, error)
	// Close may be called repeatedly. Later operations fail with errcode.Unavailable.
	Close() error
}

// Reader reads a range of a body. Size is the size of the whole stored body, not of the range.
type Reader interface {
	io.ReadCloser
	Size() int64
}

// Info describes a stored file.
type Info struct {
	Path     string
	Size     int64     // bytes
	Modified time.Time // on the node's clock
	// Temporary marks the file of an unfinished or killed Put. Old temporary files may be deleted.
	Temporary bool
}

// Space is a node size in bytes; -1 means unknown or unlimited.
type Space struct {
	Total    int64
	Free     int64
	ReadOnly bool // nothing can be written
}

// Unlimited is for nodes that do not report their space.
var Unlimited = Space{Total: -1, Free: -1}

// TemporaryPrefix starts the names of temporary files.
const TemporaryPrefix = ".tmp-"

// MarkerName is a file with the node ID. It prevents writes to the wrong disk, e.g. to the mount point of an unmounted
// disk.
const MarkerName = ".holdfast-node"

const (
	maxPath    = 512 // bytes
	maxSegment = 200 // bytes
)

var (
	errPath  = errcode.New(errcode.Invalid, `path: expected segments of a-z, A-Z, 0-9, ".", ",", "_" and "-" that do not begin with ".", joined by "/"`)
	errRange = errcode.New(errcode.Invalid, "range: offset is beyond the end of the body")
)

// ErrRange returns the error for an offset beyond the end of a body.
func ErrRange() error { return errRange }

// CheckPath rejects paths that not all nodes support.
func CheckPath(path string) error {
	if path == "" || len(path) > maxPath {
		return errPath
	}
	for segment := range strings.SplitSeq(path, "/") {
		if !isSegment(segment) {
			return errPath
		}
	}
	return nil
}

// CheckFile is like CheckPath, but also accepts temporary files.
func CheckFile(path string) error {
	folder, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		folder, name = path[:i+1], path[i+1:]
	}
	return CheckPath(folder + strings.TrimPrefix(name, TemporaryPrefix))
}

// IsTemporary reports whether a path names a temporary file.
func IsTemporary(path string) bool {
	return strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], TemporaryPrefix)
}

// isSegment reports whether s is a valid part between slashes.
func isSegment(s string) bool {
	if s == "" || len(s) > maxSegment || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == ',', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
