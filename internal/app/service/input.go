package service

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// OpenInput opens a command's FILE argument; "-" is standard input. size is 0 if unknown. On a terminal, it says that the
// command waits for input.
func (s *Shell) OpenInput(name string) (in io.ReadCloser, size int64, err error) {
	if name == "-" {
		if s.CanAsk() {
			fmt.Fprintln(s.Stderr, "reading from the terminal: end the input with Ctrl-D, or stop with Ctrl-C and name a file")
		}
		return io.NopCloser(s.Stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, inputError(name, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: expected a file, or - for standard input", name)
	} else if err != nil {
		err = inputError(name, err)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func inputError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: expected a file, or - for standard input", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be read: permission denied", name)
	}
	return fmt.Errorf("%s cannot be read: %s", name, Reason(err))
}

// Confirm asks on standard error and reports whether the answer is y or yes. No answer means no.
func (s *Shell) Confirm(question string) bool {
	fmt.Fprint(s.Stderr, question+" [y/N] ")
	line, err := bufio.NewReader(s.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(s.Stderr)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// CanAsk reports whether a person can answer: standard input is a terminal.
func (s *Shell) CanAsk() bool { return IsTerminal(s.Stdin) }

// OnTerminal reports whether a person reads the output.
func (s *Shell) OnTerminal() bool { return IsTerminal(s.Stdout) }

// IsTerminal returns false for /dev/null, a character device that system services have as standard input.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
