package cli

import (
	"context"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// download writes the file to standard output or to --output, where it gets its name only when it is complete.
func (c *command) download(ctx context.Context, values map[string]string) error {
	w := &watch{command: c}
	r, err := c.Run(ctx, values, w.see)
	switch {
	case err != nil:
	case c.output == "":
		err = r.File.Send(c.sh.Stdout)
	default:
		err = service.WriteWhole(c.output, r.File.Send)
	}
	if w.bar != nil {
		w.bar.End()
	}
	return c.typed(err)
}

// upload runs an upload with a progress bar; name is a file, or "-" for standard input.
func (c *command) upload(ctx context.Context, values map[string]string, name string) (*operate.Result, error) {
	from, size, err := c.sh.OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	bar := c.sh.Bar("bytes", size)
	defer bar.End()
	return c.Upload(ctx, values, operate.Body{Reader: bar.Reader(from), Size: size}, nil)
}
