package imports

import (
	"context"
	"io"
	"net/http"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"holdfast/internal/errcode"
)

// maxAnswer limits an answer that the SDK reads into memory. The largest is a page of 1,000 versions with keys of
// 1,024 bytes, which are up to three times longer in URL encoding: less than 4 MiB.
const maxAnswer = 16 << 20

var errAnswer = errcode.New(errcode.Invalid, "the source sent an answer that is larger than an S3 server sends")

const limitStep = "LimitAnswers"

// limitAnswers limits all answers but the bodies of objects, which are not read into memory.
func limitAnswers(stack *middleware.Stack) error {
	limit := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		isBody := awsmiddleware.GetOperationName(ctx) == "GetObject"
		if r, ok := out.RawResponse.(*smithyhttp.Response); ok && (!isBody || r.StatusCode >= http.StatusMultipleChoices) {
			r.Body = &limitedAnswer{r.Body, maxAnswer}
		}
		return out, metadata, err
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc(limitStep, limit), middleware.After)
}

// limitedAnswer fails after too many bytes.
type limitedAnswer struct {
	io.ReadCloser

	left int64
}

func (l *limitedAnswer) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errAnswer
	}
	return n, err
}
