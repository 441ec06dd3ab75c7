package adminapi

import (
	"errors"
	"net/http"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

// document is a problem document that also names the wrong inputs.
type document struct {
	problem.Document
	Errors []problem.Field `json:"errors,omitempty"`
}

// inputError is an InputError that knows where in the request the input was.
type inputError struct {
	error
	problem.Field
}

func (e *inputError) Unwrap() error { return e.error }

// wrongParameter refuses a query or path parameter.
func wrongParameter(name, reason string) error {
	return &inputError{&operate.InputError{Input: name, Reason: reason}, problem.Field{Parameter: name, Code: "invalid", Detail: reason}}
}

// located adds to an *InputError where the input was: a parameter, or a body member. Other errors pass
// unchanged.
func (o *route) located(err error) error {
	invalid, ok := errors.AsType[*operate.InputError](err)
	if _, done := errors.AsType[*inputError](err); !ok || done {
		return err
	}
	name := invalid.Input
	in := o.Input(name)
	if in != nil {
		name = in.Member()
	}
	if in != nil && (in.Subject || !HasBody(o.Operation)) {
		return wrongParameter(name, invalid.Reason)
	}
	return &inputError{&operate.InputError{Input: name, Reason: invalid.Reason}, problem.Field{Pointer: "/" + name, Code: "invalid", Detail: invalid.Reason}}
}

// WriteError is the API's web.ErrorWriter.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := problem.Refusal(err)
	if text := errcode.ForOperator(err); errcode.Fix(err) != "" && text != "" {
		e = web.RefuseFor(err, e.Status, e.Code, text)
	}
	d := document{Document: problem.New(e, problem.In(w, r))}
	if e.Status == http.StatusUnprocessableEntity {
		d.Errors = []problem.Field{{Code: e.Code, Detail: e.Message}}
		if invalid, ok := errors.AsType[*inputError](err); ok {
			d.Errors[0] = invalid.Field
		}
	}
	problem.Send(w, e.Status, problem.ContentType, problem.Encode(d))
}

var errQuery = web.Refuse(http.StatusUnprocessableEntity, "invalid", "the query is malformed")
