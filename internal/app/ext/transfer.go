package ext

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	exthttp "holdfast/internal/extstorage/httpapi"
)

func (c *command) export() *cobra.Command {
	var (
		o    owner
		file string
	)
	cmd := &cobra.Command{
		Use:   "export --tenant T --install I",
		Short: "Export the records and schemas of an install as lines of JSON",
		Long: "Export the schemas and records of an install in the format of the API: a line of JSON for each, and\n" +
			"a last line that says that the export is complete. They are read from the database page by page\n" +
			"while servers run. Revoked installs can be exported, too: revoke an install first if nothing may\n" +
			"change meanwhile. The file gets its name when it is complete.",
		Example: "  holdfast ext export --tenant $TENANT --install $INSTALL -o install.ndjson",
		Args:    service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
			if file == "" {
				return c.exportTo(ctx, s, install, c.Stdout)
			}
			return writeWhole(file, func(w io.Writer) error { return c.exportTo(ctx, s, install, w) })
		}),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` (default: standard output)")
	return cmd
}

// writeWhole makes a file that is there when all is in it.
func writeWhole(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".partial-*") // mode 0600
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// exportTo writes what is there when its page is read.
func (c *command) exportTo(ctx context.Context, s *ext.Service, install ext.Owner, to io.Writer) error {
	page, err := s.ExportInstall(ctx, install, "")
	if err != nil {
		return err
	}
	bar := c.bar("records", page.Header.Records)
	defer bar.end()
	w := bufio.NewWriterSize(to, 64<<10)
	if _, err := w.Write(exthttp.AppendHeader(nil, page.Header)); err != nil {
		return err
	}
	for {
		if err := writePage(w, &page); err != nil {
			return err
		}
		bar.show(page.Total)
		if page.Next == "" {
			_, err := w.Write(exthttp.AppendComplete(nil, &page))
			return errors.Join(err, w.Flush())
		}
		if page, err = s.ExportInstall(ctx, install, page.Next); err != nil {
			return err
		}
	}
}

func writePage(w io.Writer, page *ext.ExportPage) error {
	for i := range page.Schemas {
		if _, err := w.Write(exthttp.AppendSchema(nil, &page.Schemas[i])); err != nil {
			return err
		}
	}
	for i := range page.Records {
		if _, err := w.Write(exthttp.AppendLine(nil, &page.Records[i])); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) importInto() *cobra.Command {
	var (
		o        owner
		preserve bool
	)
	cmd := &cobra.Command{
		Use:   "import --tenant T --install I FILE",
		Short: "Import an export into an install",
		Long: "Import the records and schemas of an export into an install while servers run. FILE may be -, for\n" +
			"standard input. Limits and quotas apply, and schemas where the file does not contain the active\n" +
			"one; rate limits do not. Records are written 20 at a time: after a failure those before it are\n" +
			"written, and the same file can be imported again. A file without the last line of an export is\n" +
			"imported as far as it goes, and is an error.\n\n" +
			"With --preserve, records keep their revisions and times. A record that has a greater revision here\n" +
			"is not changed; one with the same revision and other contents is an error.",
		Example: "  holdfast ext import --tenant $TENANT --install $INSTALL install.ndjson\n" +
			"  holdfast ext import --tenant $TENANT --install $INSTALL --preserve install.ndjson",
		Args: service.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
				return c.importFile(ctx, s, install, preserve, args[0])
			})(cmd, args)
		},
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	cmd.Flags().BoolVar(&preserve, "preserve", false, "keep the revisions and times of records and schemas")
	return cmd
}

func (c *command) importFile(ctx context.Context, s *ext.Service, install ext.Owner, preserve bool, name string) error {
	lines, size := c.Stdin, int64(0)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		lines, size = f, info.Size()
	}
	bar := c.bar("bytes", size)
	request := ext.Request{Grant: ext.Grant{Owner: install, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
	done, err := exthttp.Import(ctx, s, request, preserve, &counting{lines, bar, 0})
	bar.end()
	newer := ""
	if preserve {
		newer = fmt.Sprintf(", newer here: %d", done.Newer)
	}
	fmt.Fprintf(c.Stdout, "records: %d, written: %d, unchanged: %d, expired: %d%s; schemas: %d\n",
		done.Records, done.Written, done.Same, done.Expired, newer, done.Schemas)
	if item, ok := errors.AsType[*ext.ItemError](err); ok {
		switch pointer, ok := ext.PointerOf(item.Err); {
		case ok && pointer == "":
			return fmt.Errorf("line %d %w", item.Index+1, item.Err)
		case ok:
			return fmt.Errorf("line %d: %s %w", item.Index+1, pointer, item.Err)
		}
		return fmt.Errorf("line %d: %w", item.Index+1, item.Err)
	}
	return err
}

// counting shows how much was read.
type counting struct {
	io.Reader
	bar  *bar
	read int64
}

func (r *counting) Read(p []byte) (n int, err error) {
	n, err = r.Reader.Read(p)
	if r.read += int64(n); n > 0 {
		r.bar.show(r.read)
	}
	return n, err
}

// bar shows how far a command is, on a terminal.
type bar struct {
	to    io.Writer // nil: nothing is shown
	what  string
	n     int64
	total int64 // 0: not known
	drawn time.Time
}

func (c *command) bar(what string, total int64) *bar {
	b := &bar{what: what, total: total}
	if f, ok := c.Stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.to = f
		}
	}
	return b
}

// show is for every step; ten times a second are enough to see.
func (b *bar) show(n int64) {
	b.n = n
	if b.to != nil && time.Since(b.drawn) >= 100*time.Millisecond {
		b.draw()
	}
}

const barWidth = 30

func (b *bar) draw() {
	b.drawn = time.Now()
	if b.total == 0 {
		fmt.Fprintf(b.to, "\r%d %s", b.n, b.what)
		return
	}
	filled := int(min(b.n, b.total) * barWidth / b.total)
	fmt.Fprintf(b.to, "\r[%s%s] %d of %d %s", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), b.n, b.total, b.what)
}

func (b *bar) end() {
	if b.to != nil && !b.drawn.IsZero() {
		b.draw()
		fmt.Fprintln(b.to)
	}
}
