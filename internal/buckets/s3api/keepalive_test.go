package s3api_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/errcode"
)

// slowNode stores a body when the test allows it.
type slowNode struct {
	blobs.Driver
	proceed chan error // the result; nil stores the body
}

func (n *slowNode) Put(ctx context.Context, path string, body io.Reader, size int64) (int64, error) {
	select {
	case err := <-n.proceed:
		if err != nil {
			return 0, err
		}
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return n.Driver.Put(ctx, path, body, size)
}

func (s *server) slow() (proceed chan error) {
	s.t.Helper()
	s.s3.KeepAlive = time.Millisecond
	proceed = make(chan error)
	var nodes []blobs.Node
	for i, id := range []string{"home:1", "home:2"} {
		nodes = append(nodes, blobs.Node{ID: id, State: buckets.NodeActive, Driver: &slowNode{filedriver.New(s.folders[i], id), proceed}})
	}
	s.cluster.Set(nodes...)
	s.cluster.Refresh(s.t.Context())
	return proceed
}

type slowUploads struct {
	buckets.Backend
	proceed chan error
}

func (u *slowUploads) Complete(ctx context.Context, k buckets.UploadKey, c buckets.Completion) (buckets.Written, error) {
	if err := <-u.proceed; err != nil {
		return buckets.Written{}, err
	}
	return u.Backend.Complete(ctx, k, c)
}

// begin returns the response after two spaces.
func (s *server) begin(method, target, content string, headers ...string) (*http.Response, *bufio.Reader) {
	s.t.Helper()
	r := s.request(method, target, content, headers...)
	s.main.Sign(r, sha256Hex(content), time.Now())
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	body := bufio.NewReader(response.Body)
	declaration, err := body.ReadString('\n')
	spaces := make([]byte, 2)
	if _, err2 := io.ReadFull(body, spaces); err != nil || err2 != nil || response.StatusCode != 200 ||
		!strings.HasPrefix(declaration, "<?xml ") || string(spaces) != "  " || response.Header.Get("Content-Type") != "application/xml" {
		s.t.Fatalf("%d %v: %q, %v, %q, %v", response.StatusCode, response.Header, declaration, err, spaces, err2)
	}
	return response, body
}

func (s *server) rest(r *http.Response, body io.Reader) answer {
	s.t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{s.t, r.Request.Method, r.StatusCode, r.Header, strings.TrimLeft(string(text), " ")}
}

func slowNodes(t *testing.T) (s *server, part string, proceed chan error) {
	t.Helper()
	s = withBucket(t, slog.New(slog.DiscardHandler))
	s.do("PUT", "/photos/source", hello).want(200)
	part = "/photos/upload?partNumber=1&uploadId=" + s.upload("/photos/upload")
	return s, part, s.slow()
}

const fromSource = "X-Amz-Copy-Source: photos/source"

// Clients and proxies give up after 60 seconds without data, so the server sends spaces.
func TestCopyOnSlowNode(t *testing.T) {
	t.Parallel()
	s, part, proceed := slowNodes(t)
	t.Run("CopyObject", func(t *testing.T) {
		r, body := s.begin("PUT", "/photos/copy", "", fromSource)
		proceed <- nil
		proceed <- nil
		a := s.rest(r, body)
		if !strings.HasPrefix(a.body, "<CopyObjectResult ") || a.element("ETag") != "&quot;"+md5Tag(hello)+"&quot;" {
			t.Fatal(a.body)
		}
		s.do("GET", "/photos/copy", "").want(200).is(hello)
	})
	t.Run("UploadPartCopy", func(t *testing.T) {
		r, body := s.begin("PUT", part, "", fromSource)
		proceed <- nil
		proceed <- nil
		if a := s.rest(r, body); !strings.HasPrefix(a.body, "<CopyPartResult ") || a.element("ETag") != "&quot;"+md5Tag(hello)+"&quot;" {
			t.Fatal(a.body)
		}
	})
	t.Run("CompleteMultipartUpload", func(t *testing.T) {
		id := s.upload("/photos/complete")
		done := s.do("PUT", "/photos/complete?partNumber=1&uploadId="+id, "small").want(200)
		s.options.Backend = &slowUploads{s.options.Backend, proceed}
		s.reopen()
		list := "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + done.header.Get("Etag") + "</ETag></Part></CompleteMultipartUpload>"
		r, body := s.begin("POST", "/photos/complete?uploadId="+id, list)
		proceed <- nil
		if a := s.rest(r, body); !strings.HasPrefix(a.body, "<CompleteMultipartUploadResult ") || !strings.HasSuffix(a.element("ETag"), "-1&quot;") {
			t.Fatal(a.body)
		}
		s.do("GET", "/photos/complete", "").want(200).is("small")
	})
}

// After spaces, the status is 200 and the body contains the error.
func TestErrorOfCopyOnSlowNode(t *testing.T) {
	t.Parallel()
	s, part, proceed := slowNodes(t)
	t.Run("Condition", func(t *testing.T) {
		r, body := s.begin("PUT", "/photos/new", "", fromSource, "If-None-Match: *")
		s.do("PUT", "/photos/new", "small").want(200)
		proceed <- nil
		proceed <- nil
		s.rest(r, body).fails(200, "PreconditionFailed")
		s.do("GET", "/photos/new", "").want(200).is("small")
	})
	t.Run("Bucket", func(t *testing.T) {
		s.do("PUT", "/other", "").want(200)
		r, body := s.begin("PUT", "/other/copy", "", fromSource)
		s.do("DELETE", "/other", "").want(204)
		proceed <- nil
		proceed <- nil
		s.rest(r, body).fails(200, "NoSuchBucket")
	})
	t.Run("SDK", func(t *testing.T) {
		failed := make(chan error)
		go func() {
			_, err := s.client().CopyObject(t.Context(), &s3.CopyObjectInput{
				Bucket: aws.String("photos"), Key: aws.String("sdk"), CopySource: aws.String("photos/source"), IfNoneMatch: aws.String("*"),
			})
			failed <- err
		}()
		proceed <- nil // one copy is stored
		s.do("PUT", "/photos/sdk", "small").want(200)
		proceed <- nil
		if err := <-failed; code(err) != "PreconditionFailed" {
			t.Error(err)
		}
	})
	t.Run("Node", func(t *testing.T) {
		for _, target := range []string{"/photos/failed", part} {
			r, body := s.begin("PUT", target, "", fromSource)
			failed := errcode.New(errcode.Unavailable, "the disk is broken")
			done := make(chan struct{})
			go func() { // the cluster may retry a node
				for {
					select {
					case proceed <- failed:
					case <-done:
						return
					}
				}
			}()
			a := s.rest(r, body)
			close(done)
			a.fails(200, "ServiceUnavailable")
		}
		s.do("HEAD", "/photos/failed", "").want(404)
	})
}
