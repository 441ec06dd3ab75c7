package imports

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// listVersions calls fn with all versions of each name, oldest first. A name may continue on the next page; it is then
// held back.
func (s *Source) listVersions(ctx context.Context, bucket, prefix string, fn func(key string, versions []Listed) error) error {
	in := &s3.ListObjectVersionsInput{Bucket: &bucket, EncodingType: types.EncodingTypeUrl}
	if prefix != "" {
		in.Prefix = &prefix
	}
	var rest []Listed
	for {
		page, out, err := s.versionPage(ctx, in)
		if err != nil {
			return err
		}
		names, byName := group(append(rest, page...))
		rest = nil
		marker, partial := "", -1
		if aws.ToBool(out.IsTruncated) {
			if marker, err = decoded(aws.ToString(out.NextKeyMarker), out.EncodingType); err != nil {
				return err
			}
			if marker == "" {
				return errList
			}
			partial = lastOf(names, marker)
		}
		for n, name := range names {
			if n == partial {
				rest = byName[name]
			} else if err := fn(name, inOrder(byName[name])); err != nil {
				return err
			}
		}
		if marker == "" {
			return nil
		}
		in.KeyMarker, in.VersionIdMarker = &marker, out.NextVersionIdMarker
	}
}

// lastOf returns the index of the name that continues on the next page: the longest name with which the marker begins
// (MinIO appends a position), or else the last name.
func lastOf(names []string, marker string) int {
	last := len(names) - 1
	length := -1
	for n, name := range names {
		if len(name) > length && strings.HasPrefix(marker, name) {
			last, length = n, len(name)
		}
	}
	return last
}

// group collects versions by name, in the order of the list.
func group(all []Listed) (names []string, byName map[string][]Listed) {
	byName = map[string][]Listed{}
	for _, l := range all {
		switch had := byName[l.Key]; {
		case len(had) == 0:
			names = append(names, l.Key)
		case slices.ContainsFunc(had[max(0, len(had)-2):], func(o Listed) bool { return o.Version == l.Version && o.Marker == l.Marker }):
			continue // versitygw repeats a page's last version
		}
		byName[l.Key] = append(byName[l.Key], l)
	}
	return names, byName
}

// errFound ends a list early. It is not io.EOF, which a closed connection wraps.
var errFound = errors.New("found")

// versionsOf returns the versions of a name, oldest first. Other names may come before it, because not every list is
// sorted.
func (s *Source) versionsOf(ctx context.Context, bucket, key string) (found []Listed, err error) {
	others := 0
	err = s.listVersions(ctx, bucket, key, func(name string, versions []Listed) error {
		if name == key {
			found = versions
			return errFound
		}
		if others++; others > pageSize {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// decoded decodes a listed key.
func decoded(key string, encoding types.EncodingType) (string, error) {
	if encoding != types.EncodingTypeUrl {
		return key, nil
	}
	key, err := url.QueryUnescape(key)
	if err != nil {
		return "", errcode.New(errcode.Unavailable, "the source sent a key that is not URL-encoded, although it says so")
	}
	return key, nil
}

// versionPage keeps the order of versions and delete markers, unlike the SDK's client.
func (s *Source) versionPage(ctx context.Context, in *s3.ListObjectVersionsInput) (page []Listed, out *s3.ListObjectVersionsOutput, err error) {
	var document []byte
	out, err = s.client.ListObjectVersions(ctx, in, s3.WithAPIOptions(func(stack *middleware.Stack) error {
		return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("KeepOrder", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			if r, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil {
				body := r.Body
				document, err = io.ReadAll(body)
				_ = body.Close()
				r.Body = io.NopCloser(bytes.NewReader(document))
			}
			return out, metadata, err
		}), limitStep, middleware.Before) // it reads a limited answer
	}))
	if err != nil {
		return nil, nil, readable("list the versions in bucket "+aws.ToString(in.Bucket), err)
	}
	s.sawClock(out.ResultMetadata)
	page, err = parseVersions(document, out.EncodingType)
	return page, out, err
}

// listedVersion is a Version or DeleteMarker element.
type listedVersion struct {
	Key          string    `xml:"Key"`
	VersionID    string    `xml:"VersionId"`
	IsLatest     bool      `xml:"IsLatest"`
	LastModified time.Time `xml:"LastModified"`
	ETag         string    `xml:"ETag"`
	Size         int64     `xml:"Size"`
}

var errVersionList = errcode.New(errcode.Unavailable, "the source sent an invalid version list")

// parseVersions reads a list in document order.
func parseVersions(document []byte, encoding types.EncodingType) (page []Listed, err error) {
	d := xml.NewDecoder(bytes.NewReader(document))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return page, nil
		} else if err != nil {
			return nil, errVersionList
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "Version" && start.Name.Local != "DeleteMarker" {
			continue
		}
		var v listedVersion
		if err := d.DecodeElement(&v, &start); err != nil {
			return nil, errVersionList
		}
		l := Listed{
			Version: v.VersionID, Marker: start.Name.Local == "DeleteMarker", Latest: v.IsLatest,
			ETag: bare(strings.TrimSpace(v.ETag)), Size: v.Size, Modified: buckets.At(v.LastModified),
		}
		if l.Key, err = decoded(v.Key, encoding); err != nil {
			return nil, err
		}
		page = append(page, l)
	}
}
