package jsonschema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"runtime/debug"
	"strconv"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// Trial limits. On Linux the process also limits itself, so that it ends even without its parent.
const (
	TrialTime   = 2 * time.Second // CPU time
	TrialWait   = 6 * time.Second // wall-clock time, for busy machines
	TrialMemory = 256 << 20       // bytes
)

// Sandbox tries schemas in killable processes, as a second line of defense against slow or large schemas.
type Sandbox struct {
	command func(context.Context) *exec.Cmd
}

// NewSandbox takes a command that only calls Main: the server's own binary with a hidden verb. The environment is
// empty by default, because the server's may contain secrets.
func NewSandbox(command func(context.Context) *exec.Cmd) *Sandbox {
	return &Sandbox{command: command}
}

// trial is the input of the trial process.
type trial struct {
	Document []byte   `json:"document"`
	Samples  [][]byte `json:"samples"` // stored values
}

// verdict is the output of the trial process.
type verdict struct {
	Passed  bool   `json:"passed"`
	Pointer string `json:"pointer"`
	Reason  string `json:"reason"`
	Broken  string `json:"broken"` // the process failed for another reason
}

// Trial compiles a checked document, and validates generated values and the samples. It returns nil if that is cheap,
// whether or not they match, and otherwise an *Error. It returns errcode.Unavailable on a busy machine or if ctx
// ended. The caller limits concurrent trials.
func (s *Sandbox) Trial(ctx context.Context, document []byte, samples [][]byte) error {
	input, err := json.Marshal(trial{document, samples})
	if err != nil {
		return errcode.Wrap(errcode.Internal, "the schema trial failed", err)
	}
	limited, cancel := context.WithTimeout(ctx, TrialWait)
	defer cancel()
	cmd := s.command(limited)
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	// With one processor, the CPU time limits the load.
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1", "GOTRACEBACK=none", "GOMEMLIMIT="+strconv.Itoa(TrialMemory*3/4))
	var output, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &output, &complaint
	cmd.WaitDelay = time.Second
	isolate(cmd)
	err = cmd.Run()
	if ctx.Err() != nil {
		return errcode.Wrap(errcode.Unavailable, "the request ended before the schema trial", context.Cause(ctx))
	}
	if used := cmd.ProcessState; limited.Err() != nil && used != nil && used.UserTime()+used.SystemTime() < TrialTime/2 {
		return errcode.Wrap(errcode.Unavailable, "the schema trial timed out: retry later", err)
	}
	return trialResult(err, output.Bytes(), complaint.String())
}

// trialResult returns Trial's error from the process's end, output and standard error.
func trialResult(ended error, output []byte, complaint string) error {
	if exit, ok := errors.AsType[*exec.ExitError](ended); ok && exit.ExitCode() != 1 {
		// The timeout or the kernel killed the process, or it ran out of memory.
		return &Error{Reason: "takes too much time or memory to compile and run"}
	}
	var v verdict
	if ended == nil {
		ended = json.Unmarshal(output, &v)
	}
	switch {
	case ended != nil: // the command is wrong, not the schema
		return errcode.Wrap(errcode.Internal, "the schema trial failed", errors.Join(ended, errors.New(complaint)))
	case v.Broken != "":
		return errcode.Wrap(errcode.Internal, "the schema trial failed", errors.New(v.Broken))
	case v.Passed:
		return nil
	}
	return &Error{Pointer: v.Pointer, Reason: v.Reason}
}

// Main runs in the trial process: it confines itself, reads the trial, and writes the verdict.
func Main(in io.Reader, out io.Writer) error {
	debug.SetMemoryLimit(TrialMemory * 3 / 4)
	var v verdict
	if err := confine(); err != nil {
		v.Broken = err.Error()
		return json.NewEncoder(out).Encode(v)
	}
	var t trial
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		v.Broken = err.Error()
		return json.NewEncoder(out).Encode(v)
	}
	err := try(t.Document, t.Samples)
	v.Passed = err == nil
	if e, ok := errors.AsType[*Error](err); ok {
		v.Pointer, v.Reason = e.Pointer, e.Reason
	} else if err != nil {
		v.Broken = err.Error()
	}
	return json.NewEncoder(out).Encode(v)
}

// try compiles and runs the schema.
func try(document []byte, samples [][]byte) error {
	s, err := Compile(document)
	if err != nil {
		return err
	}
	for _, probe := range s.document.probes() {
		if err := s.hold(context.Background(), probe); errors.Is(err, errTooManySteps) {
			return &Error{Reason: "takes too many steps to validate generated values: " +
				"if several alternatives describe the same member, add a member with a different const to each of them"}
		}
	}
	for _, sample := range samples {
		if err := s.Validate(context.Background(), canonjson.Value(sample)); errors.Is(err, errTooManySteps) {
			return &Error{Reason: "takes too many steps to validate a stored value"}
		}
	}
	return nil
}
